"""A dense layer in integers: the kernel's own source, run on the CPU, and its variants for each size."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import ExampleCase, cases, expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("dense_int8")


# Each example with ReLU or without it.
CASES = [case for case in cases(KERNEL) if case.bound.attributes["relu"] == (case.bound.axes["in"] % 16 == 0)]


@needs_gcc
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.slow if i % 3 else []) for i, c in enumerate(CASES)], ids=str
)
def test_the_source_computes_the_reference(case: ExampleCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    plain = plain_inputs(case.bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(case.bound, plain)
    (found,) = computed_on_cpu(case.bound, case.variant, kernel_inputs(case.bound, plain), tmp_path_factory)
    assert (found == wanted).all()


@needs_gcc
def test_the_largest_sum_is_exact(tmp_path_factory: pytest.TempPathFactory) -> None:
    inputs = 131_071
    bound = KERNEL.bind_axes({"n": 1, "in": inputs, "out": 1}, KERNEL.types[0], {"relu": 0})
    smallest = np.full((1, inputs), -128, np.int8)
    scales = [np.float32(value) for value in (0.001, 1e-5, 0.0, 1.0)]
    plain = [smallest, scales[0], smallest, scales[1:2], scales[2:3], scales[3]]
    given = [np.asarray(array) for array in plain]
    (found,) = computed_on_cpu(bound, bound.kernel.variant("any_size"), given, tmp_path_factory)
    assert found.tolist() == expected_outputs(bound, given)[0].tolist() == [[21]]


def test_more_products_than_an_int_adds_up_are_refused() -> None:
    with pytest.raises(LenetTrtError, match="dense_int8 wants in <= 131071, and in = 131072"):
        KERNEL.bind_axes({"n": 1, "in": 131_072, "out": 1}, KERNEL.types[0])


@pytest.mark.parametrize(
    ("sm", "n", "inputs", "outputs", "variant"),
    [
        (90, 1, 256, 120, "few_rows"),
        (90, 512, 256, 120, "few_rows"),
        (90, 1024, 256, 120, "staged_32x32"),
        (90, 10_000, 256, 120, "staged_64x64"),
        (90, 1024, 4096, 4096, "staged_128x128"),
        (90, 10_000, 84, 120, "staged_64x64"),
        (90, 10_000, 85, 120, "any_size"),
        (90, 65_536, 84, 10, "staged_32x32"),
        (90, 16_384, 16, 65, "any_size"),
        (90, 65_536, 16, 65, "staged_128x128"),
        (75, 10_000, 256, 120, "few_rows"),
    ],
)
def test_each_size_takes_its_variant(sm: int, n: int, inputs: int, outputs: int, variant: str) -> None:
    bound = KERNEL.bind_axes({"n": n, "in": inputs, "out": outputs}, KERNEL.types[0])
    assert bound.variant(sm, {"multiprocessors": 132}).name == variant
