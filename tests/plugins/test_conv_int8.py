"""A convolution in integers: the kernel's own source, run on the CPU, its variant for each size, and its patterns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import ExampleCase, cases, expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("conv_int8")


@needs_gcc
@pytest.mark.parametrize("case", [case for case in cases(KERNEL) if case.bound.axes["n"] < 100], ids=str)
def test_the_source_computes_the_reference(case: ExampleCase, tmp_path: Path) -> None:
    plain = plain_inputs(case.bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(case.bound, plain)
    (found,) = computed_on_cpu(case.bound, case.variant, kernel_inputs(case.bound, plain), tmp_path)
    assert len(np.unique(wanted)) > 20
    assert (found == wanted).all()
