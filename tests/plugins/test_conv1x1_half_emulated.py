"""1x1 convolutions with channels last: their own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

PLAIN, ADDS, TOKENS = "conv1x1_half", "conv1x1_half_add", "conv1x1_half_tokens"
# Pixels and filters that fill no tile; several tiles a block; channels that do not fill the last chunk.
FEW = {"n": 1, "c": 64, "h": 3, "w": 5, "k": 40}
MANY = {"n": 2, "c": 96, "h": 10, "w": 13, "k": 136}
WIDE = {"n": 1, "c": 320, "h": 10, "w": 13, "k": 264}
PART = {"n": 3, "c": 72, "h": 7, "w": 7, "k": 200}
CASES = [
    (PLAIN, "wide_wgmma", WIDE, "fp16", True),
    (PLAIN, "wgmma", MANY, "fp16", False),
    (PLAIN, "wgmma", PART, "bf16", True),
    (PLAIN, "by2_wgmma", FEW, "bf16", False),
    (PLAIN, "direct", FEW, "fp16", True),
    (ADDS, "wide_wgmma", WIDE, "bf16", False),
    (ADDS, "less_wide_wgmma", PART, "fp16", True),
    (ADDS, "wgmma", MANY, "fp16", False),
    (ADDS, "by2_wgmma", FEW, "fp16", False),
    (ADDS, "by4_wgmma", WIDE, "bf16", True),
    (ADDS, "by8_wgmma", WIDE, "fp16", True),
    (ADDS, "direct", PART, "fp16", False),
    (TOKENS, "wgmma", PART, "fp16", False),
    (TOKENS, "direct", FEW, "bf16", True),
]


@needs_gcc
@pytest.mark.parametrize(
    ("name", "variant", "axes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
@pytest.mark.parametrize("activation", ["relu", pytest.param("silu", marks=pytest.mark.slow)])
def test_the_source_computes_the_reference(
    name: str, variant: str, axes: dict[str, int], types: str, activation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel, attributes = registry.kernel(name), {"activation": activation}
    assert disagreement_on_cpu(kernel, variant, axes, attributes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", pytest.param("by2_wgmma", marks=pytest.mark.slow)])
def test_a_launch_without_tensor_maps_computes_the_same(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    kernel, attributes = registry.kernel(ADDS), {"activation": "relu"}
    found = disagreement_on_cpu(kernel, variant, PART, attributes, unchanged, tmp_path_factory, "fp16", maps=False)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", "by2_wgmma"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_what_is_added_may_be_anything(variant: str, value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[1][0, 3, 1, 2], plain[1][0, 5, 2, 4] = value, -value

    kernel, attributes = registry.kernel(ADDS), {"activation": "relu"}
    assert disagreement_on_cpu(kernel, variant, FEW, attributes, change, tmp_path_factory, "fp16") is None
