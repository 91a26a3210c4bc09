"""The convolution in groups on tensor cores: its own source, run on the CPU in 16 bits."""

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
