"""Patches of images times filters in fp16 and bf16: its own sources, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("patch_embedding_half")
# Pieces of 16 bytes: one patch; several tiles a block over images of 77 patches; outputs that fill no tile.
ONE = {"n": 1, "c": 3, "h": 16, "w": 16, "k": 40, "size": 16}
MANY = {"n": 4, "c": 4, "h": 56, "w": 88, "k": 136, "size": 8}
DEEP = {"n": 3, "c": 3, "h": 48, "w": 80, "k": 264, "size": 16}
GREY = {"n": 1, "c": 1, "h": 96, "w": 64, "k": 32, "size": 32}
# Pieces of 8 bytes: stages of 64 inputs, and of 32; last chunks that are not full.
SHALLOW = {"n": 3, "c": 3, "h": 28, "w": 36, "k": 96, "size": 4}
PART = {"n": 5, "c": 5, "h": 20, "w": 28, "k": 72, "size": 4}
TWELVE = {"n": 9, "c": 2, "h": 36, "w": 60, "k": 48, "size": 12}
# Stages of 32 inputs with pieces of 16 bytes, and a last one that is half full.
ODD = {"n": 2, "c": 1, "h": 48, "w": 72, "k": 40, "size": 24}
ODD_OF_EIGHT = {"n": 3, "c": 5, "h": 40, "w": 56, "k": 40, "size": 8}
CASES = [
    ("wide_wgmma", MANY, "fp16", False),
    ("wide_wgmma", SHALLOW, "bf16", False),
    ("wide_wgmma", DEEP, "bf16", True),
    ("wide_wgmma", PART, "fp16", True),
    ("wgmma", SHALLOW, "fp16", False),
    ("wgmma", PART, "bf16", False),
    ("wgmma", MANY, "bf16", True),
    ("wgmma", ONE, "fp16", True),
    ("wgmma", GREY, "bf16", True),
    ("wgmma", TWELVE, "fp16", True),
    ("wgmma", ODD, "fp16", True),
    ("wgmma", ODD_OF_EIGHT, "bf16", True),
    ("by2_wgmma", SHALLOW, "fp16", False),
    ("by2_wgmma", PART, "bf16", True),
    ("by4_wgmma", DEEP, "fp16", True),
    ("by8_wgmma", ONE, "bf16", True),
    ("by8_wgmma", TWELVE, "fp16", True),
    ("direct", SHALLOW, "bf16", False),
    ("direct", MANY, "fp16", True),
    ("direct", TWELVE, "bf16", True),
]


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, sizes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    axes = {name: size for name, size in sizes.items() if name != "size"}
    size = {"size": sizes["size"]}
    assert disagreement_on_cpu(KERNEL, variant, axes, size, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", pytest.param("by2_wgmma", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_patch(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 2, 13, 30] = value

    axes = {name: size for name, size in SHALLOW.items() if name != "size"}
    assert disagreement_on_cpu(KERNEL, variant, axes, {"size": 4}, change, tmp_path_factory, "fp16") is None
