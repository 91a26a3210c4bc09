"""The transposed convolution of channels-last maps: its own source, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("transposed_conv2x2_half")
# A block with several tiles, and a last one that its pixels do not fill; channels that fill no chunk; the 8 outputs of
# a lane in the upper and the lower row of a square; planes that fill no tile; several tiles across the outputs.
FEW = {"n": 1, "c": 8, "h": 3, "w": 5, "k": 8}
PART = {"n": 3, "c": 40, "h": 11, "w": 17, "k": 24}
MANY = {"n": 5, "c": 64, "h": 9, "w": 14, "k": 32}
ACROSS = {"n": 2, "c": 72, "h": 13, "w": 15, "k": 72}
# More stages than the ring has.
DEEP = {"n": 3, "c": 264, "h": 9, "w": 10, "k": 40}
CASES = [
    ("staying_wgmma", PART, "fp16", False),
    ("staying_wgmma", FEW, "bf16", True),
    ("staying_wgmma", MANY, "bf16", True),
    ("staying_wgmma", ACROSS, "fp16", True),
    ("staying_wgmma", DEEP, "bf16", False),
    ("wide_wgmma", ACROSS, "fp16", False),
    ("wide_wgmma", DEEP, "bf16", True),
    ("wgmma", FEW, "fp16", False),
    ("wgmma", PART, "bf16", True),
    ("wgmma", ACROSS, "bf16", True),
    ("direct", PART, "fp16", False),
    ("direct", ACROSS, "bf16", True),
]


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gelu = {"activation": "gelu"}
    assert disagreement_on_cpu(KERNEL, variant, axes, gelu, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["staying_wgmma", pytest.param("direct", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_what_is_not_finite_stays_in_its_square(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 3, 0, 5] = value

    none = {"activation": "none"}
    assert disagreement_on_cpu(KERNEL, variant, PART, none, change, tmp_path_factory, "fp16") is None
