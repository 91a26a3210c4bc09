"""The convolution in groups on tensor cores and from shared memory: its own sources, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import AttributeValue, registry

GROUPED = registry.kernel("grouped_conv")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
SAME: dict[str, AttributeValue] = {"size": 3, "stride": 1, "pad": 1, "activation": "none"}
# Groups of one unit and of two; one product across, two, and several blocks for a group's filters.
EIGHT: Sizes = ({"n": 2, "h": 9, "w": 13, "cg": 8, "k": 24}, {**SAME, "group": 3, "activation": "relu"})
STRIDED: Sizes = ({"n": 3, "h": 7, "w": 7, "cg": 8, "k": 64}, {**SAME, "group": 4, "stride": 2, "activation": "silu"})
SIXTEEN: Sizes = ({"n": 2, "h": 6, "w": 11, "cg": 16, "k": 48}, {**SAME, "group": 3, "pad": 0})
MANY: Sizes = (
    {"n": 1, "h": 8, "w": 5, "cg": 16, "k": 64},
    {**SAME, "group": 2, "size": 5, "pad": 3, "activation": "gelu"},
)
# Several bands of rows, of which the last one has fewer.
TALL: Sizes = ({"n": 2, "h": 41, "w": 40, "cg": 8, "k": 16}, {**SAME, "group": 2})


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sizes", [EIGHT, SIXTEEN, *[pytest.param(each, marks=pytest.mark.slow) for each in (STRIDED, MANY, TALL)]], ids=str
)
def test_the_source_computes_the_reference(sizes: Sizes, types: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert disagreement_on_cpu(GROUPED, "tensor_core", *sizes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
@pytest.mark.parametrize("sizes", [EIGHT, SIXTEEN], ids=str)
def test_an_infinity_reaches_the_pixels_of_its_windows_alone(
    sizes: Sizes, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][-1, 5, 3, 3] = value

    assert disagreement_on_cpu(GROUPED, "tensor_core", *sizes, change, tmp_path_factory, "fp16") is None


# Rows of several images in a block, and several blocks; filters that fill no eight; few channels.
IMAGES: Sizes = ({"n": 5, "h": 9, "w": 20, "cg": 3, "k": 15}, {**SAME, "group": 3, "activation": "relu"})
BLOCKS: Sizes = ({"n": 2, "h": 26, "w": 56, "cg": 8, "k": 16}, {**SAME, "group": 2})
FIVE: Sizes = (
    {"n": 3, "h": 11, "w": 8, "cg": 2, "k": 44},
    {**SAME, "group": 2, "size": 5, "pad": 2, "activation": "silu"},
)


@needs_gcc
@pytest.mark.parametrize("sizes", [IMAGES, BLOCKS, FIVE], ids=str)
def test_images_below_each_other_are_the_same(sizes: Sizes, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert disagreement_on_cpu(GROUPED, "staged", *sizes, unchanged, tmp_path_factory, "fp32") is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_infinity_stays_in_its_image(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 2, 8, 19] = plain[0][3, 4, 0, 0] = value

    assert disagreement_on_cpu(GROUPED, "staged", *IMAGES, change, tmp_path_factory, "fp32") is None
