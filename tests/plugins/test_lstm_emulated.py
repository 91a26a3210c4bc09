"""The LSTM on the CPU: its source, a fiber for each thread, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import disagreement, expected_outputs, plain_inputs
from lenet_trt.kernel.registry import kernel

KERNEL = kernel("lstm")
# Odd sizes, more sequences than a block takes, gates of more than one pass of the direct variant, units that do not
# divide among blocks, weights of the features in registers and in shared memory.
CASES = {
    "forward": {"steps": 5, "n": 5, "inputs": 7, "dirs": 1, "hidden_size": 9},
    "reverse": {"steps": 3, "n": 1, "inputs": 1, "dirs": 1, "hidden_size": 70},
    "bidirectional": {"steps": 4, "n": 6, "inputs": 20, "dirs": 2, "hidden_size": 128},
    "wide": {"steps": 2, "n": 2, "inputs": 3, "dirs": 2, "hidden_size": 300},
    "frames": {"steps": 4, "n": 3, "inputs": 40, "dirs": 2, "hidden_size": 127},
    "sensor": {"steps": 6, "n": 7, "inputs": 120, "dirs": 1, "hidden_size": 50},
    "words": {"steps": 3, "n": 5, "inputs": 150, "dirs": 2, "hidden_size": 250},
}
WAYS = {"wide": "bidirectional", "frames": "bidirectional", "sensor": "reverse", "words": "bidirectional"}
# The variants of a case, in fp32 and in fp16.
RUNS_OF = {
    "forward": ("by1 by1_rows4 by2 by8_rows4 kept kept4 direct", "kept kept4 direct"),
    "reverse": ("by2 direct", ""),
    "bidirectional": ("by2_rows4 by8", "by2"),
    "wide": ("direct", ""),
    "frames": ("by2 by2_rows4", "by2_rows4"),
    "sensor": ("by1 by1_rows4", "by1 by1_rows4"),
    "words": ("by8 by8_rows4", "by8 by8_rows4"),
}
RUNS = [
    (case, types, variant)
    for case, variants in RUNS_OF.items()
    for types, names in zip(("fp32", "fp16"), variants, strict=True)
    for variant in names.split()
]


# The others are slow: every variant is compiled for each.
USUAL = ("forward", "reverse")


def bound_of(case: str, types: str) -> Bound:
    sizes = dict(CASES[case])
    attributes = {"hidden_size": sizes.pop("hidden_size"), "direction": WAYS.get(case, case)}
    return KERNEL.bind_axes(sizes, KERNEL.types_named(types), attributes)


def problem(bound: Bound, variant: str, plain: list[np.ndarray], factory: pytest.TempPathFactory) -> str | None:
    found = computed_on_cpu(bound, KERNEL.variant(variant), plain, factory)
    wanted = expected_outputs(bound, plain)
    tolerance = 1e-6 if bound.types.name == "fp32" else bound.types.tolerance
    checked = (disagreement(seen, exact, tolerance) for seen, exact in zip(found, wanted, strict=True))
    return next(filter(None, checked), None)


def test_every_variant_is_tried() -> None:
    assert {(types, name) for _, types, name in RUNS} == {
        (types.name, variant.name) for types in KERNEL.types for variant in KERNEL.variants
    }
    assert all(bound_of(case, types).fits(KERNEL.variant(variant)) for case, types, variant in RUNS)


@needs_gcc
@pytest.mark.parametrize(
    ("case", "types", "variant"),
    [pytest.param(*run, marks=[] if run[0] in USUAL else pytest.mark.slow) for run in RUNS],
)
def test_a_variant_computes_every_step(
    case: str, types: str, variant: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = bound_of(case, types)
    assert problem(bound, variant, plain_inputs(bound, np.random.default_rng(0)), tmp_path_factory) is None


@needs_gcc
@pytest.mark.parametrize("variant", RUNS_OF["forward"][0].split())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_so(variant: str, value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    bound = bound_of("forward", "fp32")
    plain = plain_inputs(bound, np.random.default_rng(1))
    plain[0][2, 1, 3] = value
    assert problem(bound, variant, plain, tmp_path_factory) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["by1", "by2", "direct", "kept"])
def test_states_near_zero_keep_their_digits(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    bound = bound_of("forward", "fp32")
    plain = plain_inputs(bound, np.random.default_rng(2))
    for array in (plain[0], *plain[3:]):  # features, biases, states
        array *= np.float32(2.0**-30)
    assert problem(bound, variant, plain, tmp_path_factory) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["by1", "kept", "direct"])
def test_without_a_step_the_states_stay_as_they_were(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    sizes = {"steps": 0, "n": 5, "inputs": 7, "dirs": 1}
    bound = KERNEL.bind_axes(sizes, KERNEL.types_named("fp32"), {"hidden_size": 9, "direction": "reverse"})
    assert problem(bound, variant, plain_inputs(bound, np.random.default_rng(0)), tmp_path_factory) is None
