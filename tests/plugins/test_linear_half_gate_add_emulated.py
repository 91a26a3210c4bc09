"""A dense layer with a gate and a sum: its own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

FEW = {"n": 3, "t": 5, "gates": 4, "in": 64, "out": 40}
MANY = {"n": 2, "t": 130, "gates": 6, "in": 96, "out": 136}
WIDE = {"n": 5, "t": 26, "gates": 6, "in": 320, "out": 264}
CASES = [
    ("wide_wgmma", WIDE, "fp16", True),
    ("less_wide_wgmma", MANY, "bf16", True),
    ("wgmma", MANY, "fp16", False),
    ("by2_wgmma", FEW, "bf16", False),
    ("by4_wgmma", WIDE, "fp16", True),
    ("direct", FEW, "fp16", False),
]


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
@pytest.mark.parametrize("activation", ["none", pytest.param("relu", marks=pytest.mark.slow)])
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, activation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel, attributes = registry.kernel("linear_half_gate_add"), {"activation": activation, "gate_part": 3}
    assert disagreement_on_cpu(kernel, variant, axes, attributes, unchanged, tmp_path_factory, types) is None
