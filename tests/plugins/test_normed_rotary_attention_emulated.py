"""Rotary attention of normalised queries and keys, on tensor cores and by rows: its own sources, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("normed_rotary_attention")
# Queries that do not fill a block, or a warp; several steps of keys, the last one with a few; one, two, four and eight
# threads that have a row.
LEAST = {"n": 1, "b": 1, "t": 37, "g": 1, "d": 16, "mask_heads": 1, "mask_rows": 1}
SHARED = {"n": 2, "b": 1, "t": 70, "g": 2, "d": 32, "mask_heads": 1, "mask_rows": 70}
FEW_HEADS = {"n": 2, "b": 2, "t": 101, "g": 1, "d": 64, "mask_heads": 1, "mask_rows": 101}
DEEP = {"n": 1, "b": 1, "t": 69, "g": 1, "d": 128, "mask_heads": 3, "mask_rows": 1}
ATTRIBUTES = {"scale": 0.3, "repeats": 3, "epsilon": 1e-6}


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        ("tensor64", SHARED),
        ("tensor64", DEEP),
        pytest.param("tensor64", LEAST, marks=pytest.mark.slow),
        pytest.param("tensor128", {**SHARED, "t": 131, "mask_rows": 131}, marks=pytest.mark.slow),
        ("divided", FEW_HEADS),
        pytest.param("divided", LEAST, marks=pytest.mark.slow),
        ("rows", LEAST),
        ("tiles", {**FEW_HEADS, "t": 150, "mask_rows": 150}),
        pytest.param("tiles", {**DEEP, "t": 131}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_it_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, axes, ATTRIBUTES, unchanged, tmp_path_factory, types) is None


def shrink(arrays: list[np.ndarray]) -> None:
    """Make x so small that the epsilon counts."""
    arrays[0] *= 2.0**-9


@needs_gcc
@pytest.mark.parametrize("variant", ["tensor64", "divided"])
def test_the_epsilon_counts(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    attributes = {**ATTRIBUTES, "epsilon": 1e-5}
    assert disagreement_on_cpu(KERNEL, variant, SHARED, attributes, shrink, tmp_path_factory, "fp16") is None
