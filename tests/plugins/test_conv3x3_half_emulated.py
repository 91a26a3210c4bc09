"""The 3x3 convolutions of channels-last maps: their own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

PLAIN, ADDS, JOINS = "conv3x3_half", "conv3x3_half_add", "conv3x3_half_concat"
SHUFFLES = "conv3x3_half_shuffle"
# Whole images in a tile, and filters that fill no block; rows of several images; halves one above the other; tiles of
# one image each; steps of 8 channels; more steps than stages; halves of 14 rows, side by side, above each other, and
# for few tiles.
SEVERAL = {"n": 3, "c": 24, "h": 7, "w": 9, "k": 72}
NARROW = {"n": 5, "c": 16, "h": 9, "w": 7, "k": 64}
WHOLE = {"n": 2, "c": 40, "h": 16, "w": 27, "k": 72}
NARROW_WHOLE = {"n": 3, "c": 16, "h": 32, "w": 8, "k": 8}
DEEP = {"n": 2, "c": 136, "h": 7, "w": 6, "k": 40}
FOURTEEN = {"n": 3, "c": 72, "h": 14, "w": 14, "k": 72}
TWICE_FOURTEEN = {"n": 2, "c": 24, "h": 28, "w": 20, "k": 40}
# Channels that fill no unit of eight, at first and at last.
FEW_CHANNELS = {"n": 2, "c": 3, "h": 9, "w": 20, "k": 20}
FEW_FILTERS = {"n": 2, "c": 44, "h": 7, "w": 7, "k": 13}
# Line by line: strips and images that end within a warpgroup's lines; images of one row; two stages; a single line a
# warpgroup.
STRIPS = {"n": 3, "c": 24, "h": 5, "w": 70, "k": 32}
FLAT = {"n": 7, "c": 16, "h": 1, "w": 30, "k": 24}
STAGES = {"n": 2, "c": 72, "h": 7, "w": 20, "k": 24}
LONELY = {"n": 1, "c": 8, "h": 4, "w": 9, "k": 8}
# Two tensors: a step of 16 channels that reads both; of one size; the last step half empty; x in one step of many.
BOTH = {**SEVERAL, "d": 40}
EQUAL = {**WHOLE, "c": 16, "d": 16}
HALF = {**NARROW, "d": 8}
MOSTLY = {**DEEP, "c": 8, "d": 136}
STRIPS_OF_BOTH = {**STRIPS, "d": 8}
STAGES_OF_BOTH = {**STAGES, "c": 32, "d": 64}
CASES = [
    (PLAIN, "wgmma", SEVERAL, "fp16", False),
    (PLAIN, "wgmma", NARROW, "fp16", True),
    (PLAIN, "wgmma", WHOLE, "bf16", False),
    (PLAIN, "wgmma", NARROW_WHOLE, "fp16", True),
    (PLAIN, "wgmma", DEEP, "fp16", True),
    (PLAIN, "wgmma", FOURTEEN, "fp16", False),
    (PLAIN, "wgmma", TWICE_FOURTEEN, "bf16", True),
    (PLAIN, "by2_wgmma", SEVERAL, "fp16", True),
    (PLAIN, "by4_wgmma", FOURTEEN, "bf16", True),
    (PLAIN, "by4_wgmma", DEEP, "bf16", True),
    (PLAIN, "by8_wgmma", DEEP, "fp16", False),
    (PLAIN, "lines_wgmma", STRIPS, "fp16", False),
    (PLAIN, "lines_wgmma", FLAT, "bf16", True),
    (PLAIN, "lines_wgmma", STAGES, "fp16", True),
    (PLAIN, "lines_wgmma", LONELY, "bf16", True),
    (PLAIN, "direct", WHOLE, "fp16", False),
    (PLAIN, "wgmma", FEW_CHANNELS, "fp16", False),
    (PLAIN, "wgmma", FEW_FILTERS, "bf16", True),
    (PLAIN, "by2_wgmma", FEW_FILTERS, "fp16", True),
    (PLAIN, "lines_wgmma", FEW_CHANNELS, "fp16", False),
    (PLAIN, "lines_wgmma", FEW_FILTERS, "bf16", True),
    (PLAIN, "direct", FEW_CHANNELS, "bf16", True),
    (PLAIN, "direct", FEW_FILTERS, "fp16", True),
    (ADDS, "wgmma", {**FEW_CHANNELS, "k": 24}, "fp16", True),
    (JOINS, "wgmma", {**EQUAL, "k": 9}, "fp16", True),
    (ADDS, "wgmma", WHOLE, "fp16", False),
    (ADDS, "wgmma", NARROW, "bf16", True),
    (ADDS, "wgmma", TWICE_FOURTEEN, "fp16", True),
    (ADDS, "by4_wgmma", FOURTEEN, "fp16", True),
    (ADDS, "by2_wgmma", WHOLE, "fp16", True),
    (ADDS, "lines_wgmma", STRIPS, "bf16", True),
    (ADDS, "lines_wgmma", FLAT, "fp16", False),
    (ADDS, "by8_wgmma", DEEP, "bf16", True),
    (ADDS, "direct", NARROW, "bf16", True),
    (JOINS, "wgmma", BOTH, "fp16", False),
    (JOINS, "wgmma", EQUAL, "fp16", True),
    (JOINS, "wgmma", HALF, "bf16", True),
    (JOINS, "by2_wgmma", BOTH, "bf16", True),
    (JOINS, "by4_wgmma", MOSTLY, "bf16", True),
    (JOINS, "by8_wgmma", MOSTLY, "fp16", True),
    (JOINS, "lines_wgmma", STRIPS_OF_BOTH, "fp16", False),
    (JOINS, "lines_wgmma", STAGES_OF_BOTH, "bf16", True),
    (JOINS, "direct", BOTH, "fp16", False),
    (SHUFFLES, "lines_wgmma", {**STRIPS, "k": 12}, "fp16", False),
    (SHUFFLES, "lines_wgmma", STRIPS, "bf16", True),
    (SHUFFLES, "lines_wgmma", LONELY, "fp16", True),
    (SHUFFLES, "direct", {**STRIPS, "k": 12}, "bf16", True),
    (SHUFFLES, "direct", LONELY, "fp16", True),
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
@pytest.mark.parametrize(
    ("name", "variant", "axes"),
    [
        (PLAIN, "wgmma", SEVERAL),
        pytest.param(ADDS, "by2_wgmma", WHOLE, marks=pytest.mark.slow),
        pytest.param(PLAIN, "wgmma", TWICE_FOURTEEN, marks=pytest.mark.slow),
        pytest.param(JOINS, "wgmma", EQUAL, marks=pytest.mark.slow),
        pytest.param(PLAIN, "lines_wgmma", STRIPS, marks=pytest.mark.slow),
        pytest.param(JOINS, "lines_wgmma", {**STRIPS_OF_BOTH, "c": 32}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_launch_without_tensor_maps_computes_the_same(
    name: str, variant: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel, attributes = registry.kernel(name), {"activation": "none"}
    found = disagreement_on_cpu(kernel, variant, axes, attributes, unchanged, tmp_path_factory, "fp16", maps=False)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
@pytest.mark.parametrize(
    ("name", "variant", "axes", "tensor"),
    [
        (ADDS, "wgmma", SEVERAL, 0),
        (JOINS, "wgmma", BOTH, 1),
        # Nor is it where no filter is.
        (PLAIN, "wgmma", FEW_FILTERS, 0),
        pytest.param(PLAIN, "by2_wgmma", FEW_FILTERS, 0, marks=pytest.mark.slow),
        pytest.param(PLAIN, "lines_wgmma", FEW_FILTERS, 0, marks=pytest.mark.slow),
        pytest.param(PLAIN, "direct", FEW_FILTERS, 0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_is_not_finite_stays_in_its_windows(
    name: str,
    variant: str,
    axes: dict[str, int],
    tensor: int,
    value: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[tensor][1, 3, 0, 5] = value

    kernel = registry.kernel(name)
    assert disagreement_on_cpu(kernel, variant, axes, {"activation": "none"}, change, tmp_path_factory, "fp16") is None
