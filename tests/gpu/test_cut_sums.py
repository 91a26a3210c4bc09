"""Sums of split floats on tensor cores are not smaller than they should be: what is cut off there is given back."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lenet_trt.check.gpu_checks import Rig
from lenet_trt.cuda.driver import current_context
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import SEED, cases, expected_outputs, plain_inputs

# The largest part, by variant: about half of what it is otherwise (docs/results/printed/cut_sums.txt).
MOST = (
    (r"tile_\d+x\d+|by\d", 5e-9),
    (r"(few_)?points_wgmma", 7e-9),
    (r"(by\d_)?wgmma", 1.3e-8),
    (r"large|small|staged_.*", 3e-8),
    (r"tensor\d+|divided", 8e-8),
)
KERNELS = (
    "attention",
    "dense_bias_relu",
    "few_channel_conv",
    "linear",
    "many_channel_conv",
    "many_channel_conv1d",
    "many_channel_conv_add",
    "masked_attention",
    "masked_self_attention",
    "patch_embedding",
    "self_attention",
    "transposed_conv2x2",
)
_LEAST_OUTPUTS = 500


@pytest.mark.parametrize("name", KERNELS)
def test_errors_have_no_direction(name: str) -> None:
    if current_context().sm != 90:
        pytest.skip("what is given back was measured on sm_90")
    found: dict[str, list[tuple[float, float]]] = {}
    for case in cases(registry.kernel(name), current_context().sm):
        if case.bound.types.name != "fp32" or not limit_of(case.variant.name):
            continue
        plain = plain_inputs(case.bound, np.random.default_rng(SEED))
        (wanted,) = expected_outputs(case.bound, plain)
        if wanted.size < _LEAST_OUTPUTS:
            continue
        rig = Rig(case, plain)
        rig.launch()
        (got,) = rig.outputs()
        found.setdefault(case.variant.name, []).append(direction(got.astype(np.float64), wanted))
    assert found
    for variant, each in found.items():
        parts, weights = np.array([part for part, _ in each]), np.array([1 / noise**2 for _, noise in each])
        assert abs((parts * weights).sum() / weights.sum()) < limit_of(variant), variant


def limit_of(variant: str) -> float:
    """Return how large the part may be; 0 for variants without tensor cores."""
    return next((limit for pattern, limit in MOST if re.fullmatch(pattern, variant)), 0.0)


def direction(got: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Return by which part of themselves outputs are too large on average, and what could be chance in that."""
    error, squares = got - wanted, float((wanted * wanted).sum())
    noise = float(np.sqrt((error * error * wanted * wanted).sum())) / squares
    return float((error * wanted).sum()) / squares, max(noise, 1e-12)
