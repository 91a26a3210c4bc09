"""The gated dense layer: its own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

GATED = registry.kernel("linear_half_gated")
# Rows and results that do not fill a tile, and 5 times 8 results in one; several tiles a block; blocks with several
# steps each; inputs that do not fill the last chunk: of a step of two chunks, and of one.
FEW = {"n": 5, "in": 64, "out": 40}
MANY = {"n": 259, "in": 96, "out": 72}
WIDE = {"n": 130, "in": 320, "out": 136}
FULL = {"n": 131, "in": 192, "out": 128}
DEEP = {"n": 67, "in": 288, "out": 104}
PART, ODD_PART = {"n": 131, "in": 40, "out": 40}, {"n": 130, "in": 72, "out": 136}
CASES = [
    ("wide_wgmma", WIDE, "fp16", False),
    ("wide_wgmma", FULL, "bf16", False),
    ("wide_wgmma", ODD_PART, "fp16", True),
    ("less_wide_wgmma", WIDE, "bf16", True),
    ("wgmma", MANY, "bf16", True),
    ("wgmma", PART, "fp16", False),
    ("by2_wgmma", FEW, "fp16", False),
    ("by2_wgmma", PART, "bf16", True),
    ("by4_wgmma", DEEP, "fp16", True),
    ("by8_wgmma", DEEP, "bf16", True),
    ("direct", FEW, "bf16", False),
    ("direct", PART, "fp16", True),
]


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
@pytest.mark.parametrize("activation", ["silu", pytest.param("gelu", marks=pytest.mark.slow)])
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, activation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    attributes = {"activation": activation}
    assert disagreement_on_cpu(GATED, variant, axes, attributes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        ("wide_wgmma", PART),
        pytest.param("by2_wgmma", PART, marks=pytest.mark.slow),
        pytest.param("wide_wgmma", ODD_PART, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_launch_without_tensor_maps_computes_the_same(
    variant: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    attributes = {"activation": "none"}
    found = disagreement_on_cpu(GATED, variant, axes, attributes, unchanged, tmp_path_factory, "fp16", maps=False)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", "by2_wgmma", pytest.param("direct", marks=pytest.mark.slow)])
@pytest.mark.parametrize("activation", ["none", "gelu_tanh", "quick_gelu"])
def test_a_gate_is_no_value(variant: str, activation: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One gate is far above zero, one far below, one value is large: exchanged, they give other results."""

    def change(plain: list[np.ndarray]) -> None:
        _, _, gate_bias, _, bias = plain
        gate_bias[:2], bias[2:4] = [30, -30], [40, -40]

    attributes = {"activation": activation}
    assert disagreement_on_cpu(GATED, variant, FEW, attributes, change, tmp_path_factory, "fp16") is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", "by2_wgmma"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_a_row_of_any_numbers_changes_no_other_row(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][3, 7] = value

    attributes = {"activation": "relu"}
    assert disagreement_on_cpu(GATED, variant, FEW, attributes, change, tmp_path_factory, "fp16") is None
