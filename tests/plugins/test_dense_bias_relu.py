"""The dense layer: its own sources, run on the CPU in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import disagreement, expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("dense_bias_relu")
FP32 = KERNEL.types_named("fp32")
STAGED = [variant.name for variant in KERNEL.variants if variant.source == "staged.cu" and "fp32" in variant.types]
# Rows that are whole pieces of 16 bytes, of 8 and of 4; one stage and several; tiles that are not full.
SIZES = ({"n": 33, "in": 256, "out": 120}, {"n": 5, "in": 18, "out": 10}, {"n": 131, "in": 85, "out": 131})


def some_slow(names: list[str]) -> list[Any]:
    """Every variant with every size. Each is compiled: one size a variant is always tested, the others are slow."""
    return [
        pytest.param(name, axes, marks=[] if i % len(SIZES) == j else pytest.mark.slow)
        for i, name in enumerate(names)
        for j, axes in enumerate(SIZES)
    ]


@needs_gcc
@pytest.mark.parametrize(("name", "axes"), some_slow(STAGED), ids=str)
def test_the_source_computes_the_reference(
    name: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = KERNEL.bind_axes(axes, FP32, {"relu": axes["n"] % 2})
    plain = plain_inputs(bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(bound, plain)
    (found,) = computed_on_cpu(bound, KERNEL.variant(name), kernel_inputs(bound, plain), tmp_path_factory)
    assert disagreement(found, wanted, FP32.tolerance) is None


@needs_gcc
@pytest.mark.parametrize(("name", "axes"), some_slow(["vector", "warp_by4"]), ids=str)
def test_the_dot_products_of_warps_compute_it(
    name: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = KERNEL.bind_axes(axes | ({"n": 1} if name == "vector" else {}), FP32, {"relu": axes["n"] % 2})
    plain = plain_inputs(bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(bound, plain)
    (found,) = computed_on_cpu(bound, KERNEL.variant(name), kernel_inputs(bound, plain), tmp_path_factory)
    assert disagreement(found, wanted, FP32.tolerance) is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.4028234e38])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = KERNEL.bind_axes({"n": 3, "in": 40, "out": 6}, FP32, {"relu": 0})
    plain = plain_inputs(bound, np.random.default_rng(5))
    plain[0][1, 7] = value
    plain[1][:, 7] = [1.0, 0.5, -0.5, 0.25, -1.0, 0.75]  # an infinity times their low part, zero, would be NaN
    with np.errstate(invalid="ignore"):
        (wanted,) = expected_outputs(bound, plain)
    (found,) = computed_on_cpu(bound, KERNEL.variant(STAGED[0]), kernel_inputs(bound, plain), tmp_path_factory)
    assert disagreement(found, wanted, FP32.tolerance) is None
