"""The convolution in groups on tensor cores: its own source, run on the CPU in floats and in 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc
from lenet_trt.kernel import AttributeValue, registry

GROUPED = registry.kernel("grouped_conv")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
SAME: dict[str, AttributeValue] = {"size": 3, "stride": 1, "pad": 1, "activation": "none"}
# Groups that fill a unit of 8 channels, share one, or have two; one product across, two, and several blocks for a
# group's filters.
EIGHT: Sizes = ({"n": 2, "h": 9, "w": 13, "cg": 8, "k": 24}, {**SAME, "group": 3, "activation": "relu"})
FOUR: Sizes = ({"n": 3, "h": 7, "w": 7, "cg": 4, "k": 32}, {**SAME, "group": 4, "stride": 2, "activation": "silu"})
TWO: Sizes = ({"n": 1, "h": 10, "w": 6, "cg": 2, "k": 16}, {**SAME, "group": 8, "size": 5, "pad": 2})
SIXTEEN: Sizes = ({"n": 2, "h": 6, "w": 11, "cg": 16, "k": 48}, {**SAME, "group": 3, "pad": 0})
MANY: Sizes = (
    {"n": 1, "h": 8, "w": 5, "cg": 16, "k": 64},
    {**SAME, "group": 2, "size": 5, "pad": 3, "activation": "gelu"},
)
# Several bands of rows, of which the last one has fewer.
TALL: Sizes = ({"n": 2, "h": 41, "w": 40, "cg": 8, "k": 16}, {**SAME, "group": 2})


Change = Callable[[list[np.ndarray]], None]


def check(
    sizes: Sizes, factory: pytest.TempPathFactory, types: str = "fp32", change: Change = lambda plain: None
) -> None:
    """Compare the variant with the reference, after ``change`` of the inputs."""
    assert disagreement_on_cpu(GROUPED, "tensor_core", *sizes, change, factory, types) is None


@needs_gcc
@pytest.mark.parametrize("types", ["fp32", "fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sizes",
    [EIGHT, FOUR, SIXTEEN, *[pytest.param(each, marks=pytest.mark.slow) for each in (TWO, MANY, TALL)]],
    ids=str,
)
def test_the_source_computes_the_reference(sizes: Sizes, types: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(sizes, tmp_path_factory, types)


@needs_gcc
@pytest.mark.parametrize(
    ("types", "value"),
    [
        *[("fp32", value) for value in (np.inf, np.nan, 3.4028234e38, 65510.0)],
        *[("fp16", value) for value in (np.inf, np.nan, 65504.0)],
    ],
)
@pytest.mark.parametrize("sizes", [FOUR, SIXTEEN], ids=str)
def test_numbers_that_tensor_cores_do_not_take_are_multiplied_as_they_are(
    sizes: Sizes, types: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A zero between groups times an infinity would be NaN in the groups beside."""

    def change(plain: list[np.ndarray]) -> None:
        plain[0][-1, 5, 3, 3] = value

    check(sizes, tmp_path_factory, types, change)


@needs_gcc
@pytest.mark.parametrize("exponents", [(-40, 0), (-16, 0), (40, 0), (40, -60), (0, -40), (0, 30), (0, -100)])
def test_numbers_far_from_one_are_as_exact(
    exponents: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        for array, exponent in zip((plain[0], plain[1]), exponents, strict=True):
            array *= np.float32(2.0**exponent)
        plain[2] *= 0

    check((FOUR[0], {**FOUR[1], "activation": "none"}), tmp_path_factory, change=change)
