"""The 3x3 convolutions of channels-last maps: their own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

PLAIN, ADDS = "conv3x3_half", "conv3x3_half_add"
# Rows of several images a tile, and filters that fill no block; halves one above the other; tiles of one image each;
# steps of 8 channels; more steps than stages.
SEVERAL = {"n": 3, "c": 24, "h": 7, "w": 9, "k": 72}
NARROW = {"n": 5, "c": 16, "h": 9, "w": 7, "k": 64}
WHOLE = {"n": 2, "c": 40, "h": 16, "w": 21, "k": 72}
NARROW_WHOLE = {"n": 3, "c": 16, "h": 32, "w": 8, "k": 8}
DEEP = {"n": 2, "c": 136, "h": 5, "w": 6, "k": 40}
# Line by line: strips and images that end within a warpgroup's lines; images of one row; two stages; a single line a
# warpgroup.
STRIPS = {"n": 3, "c": 24, "h": 5, "w": 70, "k": 32}
FLAT = {"n": 7, "c": 16, "h": 1, "w": 30, "k": 24}
STAGES = {"n": 2, "c": 72, "h": 7, "w": 20, "k": 24}
LONELY = {"n": 1, "c": 8, "h": 4, "w": 9, "k": 8}
CASES = [
    (PLAIN, "wgmma", SEVERAL, "fp16", False),
    (PLAIN, "wgmma", NARROW, "fp16", True),
    (PLAIN, "wgmma", WHOLE, "bf16", False),
    (PLAIN, "wgmma", NARROW_WHOLE, "fp16", True),
    (PLAIN, "wgmma", DEEP, "fp16", True),
    (PLAIN, "by2_wgmma", SEVERAL, "fp16", True),
    (PLAIN, "by4_wgmma", DEEP, "bf16", True),
    (PLAIN, "by8_wgmma", DEEP, "fp16", False),
    (PLAIN, "lines_wgmma", STRIPS, "fp16", False),
    (PLAIN, "lines_wgmma", FLAT, "bf16", True),
    (PLAIN, "lines_wgmma", STAGES, "fp16", True),
    (PLAIN, "lines_wgmma", LONELY, "bf16", True),
    (PLAIN, "direct", WHOLE, "fp16", False),
    (ADDS, "wgmma", WHOLE, "fp16", False),
    (ADDS, "wgmma", NARROW, "bf16", True),
    (ADDS, "by2_wgmma", WHOLE, "fp16", True),
    (ADDS, "lines_wgmma", STRIPS, "bf16", True),
    (ADDS, "lines_wgmma", FLAT, "fp16", False),
    (ADDS, "by8_wgmma", DEEP, "bf16", True),
    (ADDS, "direct", NARROW, "bf16", True),
]


@needs_gcc
@pytest.mark.parametrize(
    ("name", "variant", "axes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
def test_the_source_computes_the_reference(
    name: str, variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel = registry.kernel(name)
    assert (
        disagreement_on_cpu(kernel, variant, axes, {"activation": "gelu"}, unchanged, tmp_path_factory, types) is None
    )


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_what_is_not_finite_stays_in_its_windows(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 3, 0, 5] = value

    kernel = registry.kernel(ADDS)
    assert (
        disagreement_on_cpu(kernel, "wgmma", SEVERAL, {"activation": "none"}, change, tmp_path_factory, "fp16") is None
    )
