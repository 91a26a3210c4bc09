"""The check of the range: what single precision cannot tell is skipped, what a kernel does wrong is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lenet_trt.check import gpu_checks
from lenet_trt.check.gpu_checks import is_ill_conditioned
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import SEED, ExampleCase, bounds, cases, plain_inputs


def fp32_cases(name: str) -> list[ExampleCase]:
    return [case for case in cases(registry.kernel(name)) if case.bound.types.name == "fp32"]


@pytest.mark.parametrize("name", ["lstm", "layer_norm", "dense_bias_relu"])
def test_the_examples_are_well_conditioned_as_they_are(name: str) -> None:
    for bound in bounds(registry.kernel(name)):
        if bound.dram_bytes < 1 << 22:
            assert not is_ill_conditioned(bound, plain_inputs(bound, np.random.default_rng(SEED)))


class Wrong:
    """Stands for a kernel whose results are always wrong."""

    def __init__(self, case: ExampleCase, plain: Any) -> None:
        pass

    def launch(self) -> None:
        pass

    def problem(self) -> str:
        return "relative error 2.50e-05"


def test_a_scaling_that_a_recurrence_amplifies_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    class WrongWithLargeWeights(Wrong):
        def __init__(self, case: ExampleCase, plain: list[np.ndarray]) -> None:
            self.large = float(np.abs(plain[1]).max()) > 1e3

        def problem(self) -> str | None:  # type: ignore[override]
            return super().problem() if self.large else None

    monkeypatch.setattr(gpu_checks, "Rig", WrongWithLargeWeights)
    found = {case.bound.axes["steps"]: gpu_checks.number_range(case) for case in fp32_cases("lstm")}
    assert [steps for steps, problem in found.items() if problem is None] == [
        9,
        4,
        5,
    ]  # of one step and of few units: not
    assert all("w, r, b times 2**20" in problem for problem in found.values() if problem)


def test_a_wrong_kernel_fails_where_the_scaling_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "Rig", Wrong)
    case = fp32_cases("dense_bias_relu")[0]
    assert gpu_checks.number_range(case) == "with x times 2**40: relative error 2.50e-05"
