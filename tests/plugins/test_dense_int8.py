"""A dense layer in integers: the kernel's own source, run on the CPU, and its variants for each size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import ExampleCase, cases, expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("dense_int8")


@needs_gcc
@pytest.mark.parametrize("case", list(cases(KERNEL)), ids=str)
def test_the_source_computes_the_reference(case: ExampleCase, tmp_path: Path) -> None:
    plain = plain_inputs(case.bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(case.bound, plain)
    (found,) = computed_on_cpu(case.bound, case.variant, kernel_inputs(case.bound, plain), tmp_path)
    assert (found == wanted).all()


def test_rows_that_are_not_whole_pieces_take_the_variant_for_any_size() -> None:
    def taken(n: int, inputs: int) -> str:
        return KERNEL.bind_axes({"n": n, "in": inputs, "out": 10}, KERNEL.types[0]).variant(90).name

    assert [taken(1, 256), taken(64, 256), taken(65, 256), taken(65, 84)] == [
        "few_rows",
        "few_rows",
        "many_rows",
        "any_size",
    ]
