"""The convolution of many channels: its own sources, run on the CPU in floats."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import AttributeValue, registry
from lenet_trt.kernel.examples import disagreement, expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("many_channel_conv")
FP32 = KERNEL.types_named("fp32")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
SAME: dict[str, AttributeValue] = {"size": 3, "stride": 1, "pad": 1, "activation": "relu"}
POINTS: dict[str, AttributeValue] = {"size": 1, "stride": 1, "pad": 0, "activation": "silu"}
# Several images a tile, filters that do not fill it, odd planes; strides; copies of 16 bytes; stages of 8 and 16 rows.
ODD: Sizes = ({"n": 3, "c": 16, "h": 7, "w": 7, "k": 72}, SAME)
STRIDED: Sizes = ({"n": 1, "c": 24, "h": 9, "w": 14, "k": 16}, {**SAME, "stride": 2, "activation": "gelu"})
WIDE: Sizes = ({"n": 5, "c": 40, "h": 6, "w": 6, "k": 136}, POINTS)
CASES = [
    ("tile_64x64", ODD),
    ("tile_64x64", STRIDED),
    ("tile_64x64", WIDE),
    ("tile_64x64", ({"n": 2, "c": 16, "h": 5, "w": 7, "k": 16}, {**POINTS, "stride": 2})),
    ("tile_64x64", ({"n": 2, "c": 16, "h": 4, "w": 5, "k": 24}, {**SAME, "size": 5, "pad": 3, "activation": "none"})),
    ("tile_128x64", ODD),
    ("tile_128x64", WIDE),
    ("tile_128x128", ODD),
    ("tile_128x128", WIDE),
    ("direct", ODD),
    ("direct", STRIDED),
]


@needs_gcc
@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_the_source_computes_the_reference(name: str, sizes: Sizes, tmp_path_factory: pytest.TempPathFactory) -> None:
    bound = KERNEL.bind_axes(sizes[0], FP32, sizes[1])
    plain = plain_inputs(bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(bound, plain)
    (found,) = computed_on_cpu(bound, KERNEL.variant(name), kernel_inputs(bound, plain), tmp_path_factory)
    assert disagreement(found, wanted, FP32.tolerance) is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 3.4028234e38])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = KERNEL.bind_axes(ODD[0], FP32, {**SAME, "activation": "none"})
    plain = plain_inputs(bound, np.random.default_rng(5))
    plain[0][1, 7, 3, 3] = value
    plain[1][:, 7] = np.sign(plain[1][:, 7])  # an infinity times their low part, zero, would be NaN
    with np.errstate(invalid="ignore"):
        (wanted,) = expected_outputs(bound, plain)
    (found,) = computed_on_cpu(bound, KERNEL.variant("tile_64x64"), kernel_inputs(bound, plain), tmp_path_factory)
    assert disagreement(found, wanted, FP32.tolerance) is None
