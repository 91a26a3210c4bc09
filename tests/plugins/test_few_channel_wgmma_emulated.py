"""The convolution from few channels by wgmma: its own source, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import AttributeValue, registry

FEW = registry.kernel("few_channel_conv")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
Change = Callable[[list[np.ndarray]], None]
# An even and an odd number of pairs of taps; both strides; more filters than a block has; tiles beyond the image.
SEVEN: Sizes = ({"n": 2, "c": 3, "h": 37, "w": 45, "k": 72}, {"size": 7, "stride": 2, "pad": 3, "activation": "relu"})
THREE: Sizes = ({"n": 1, "c": 3, "h": 20, "w": 18, "k": 16}, {"size": 3, "stride": 1, "pad": 1, "activation": "gelu"})
FIVE: Sizes = ({"n": 1, "c": 1, "h": 19, "w": 21, "k": 40}, {"size": 5, "stride": 1, "pad": 2, "activation": "none"})
FOUR: Sizes = ({"n": 2, "c": 4, "h": 21, "w": 33, "k": 24}, {"size": 4, "stride": 2, "pad": 0, "activation": "silu"})
TWO: Sizes = ({"n": 1, "c": 2, "h": 9, "w": 7, "k": 8}, {"size": 2, "stride": 1, "pad": 1, "activation": "none"})


def check(sizes: Sizes, factory: pytest.TempPathFactory, change: Change = unchanged) -> None:
    """Compare the variant with the reference, after ``change`` of the inputs."""
    assert disagreement_on_cpu(FEW, "wgmma", *sizes, change, factory) is None


@needs_gcc
@pytest.mark.parametrize("sizes", [SEVEN, THREE, FIVE, FOUR, TWO], ids=str)
def test_the_source_computes_the_reference(sizes: Sizes, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(sizes, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 3.4028234e38, 65510.0])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][-1, 1, 3, 3] = value

    check(FOUR, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("exponents", [(-40, 0), (-16, 0), (40, 0), (40, -60), (0, -40), (0, 30)])
def test_numbers_far_from_one_are_as_exact(
    exponents: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        for array, exponent in zip((plain[0], plain[1]), exponents, strict=True):
            array *= np.float32(2.0**exponent)
        plain[2] *= 0

    check((FOUR[0], {**FOUR[1], "activation": "none"}), tmp_path_factory, change)
