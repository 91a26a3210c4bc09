"""Kernels whose examples are small: the source of every variant, run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest

from kernel_on_cpu import disagreement_of_call, needs_gcc
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.registry import kernel
from lenet_trt.kernel.variants import Variant

NAMES = ("batched_matmul", "depthwise_conv")
MOST_ELEMENTS = 250_000  # of outputs, each of which a CPU computes


def calls() -> Iterator[object]:
    """Two calls of each variant in fp32 and fp16, or in the type that it is for; compiling them takes seconds."""
    for name in NAMES:
        for variant in kernel(name).variants:
            for types in variant.types or ("fp32", "fp16"):
                alike = (bound for bound in bounds(kernel(name)) if bound.types.name == types and bound.fits(variant))
                first, *_, last = (bound for bound in alike if 1 < prod(bound.output_shapes[0]) < MOST_ELEMENTS)
                for bound, marks in ((first, []), (last, pytest.mark.slow)):
                    yield pytest.param(bound, variant, marks=marks, id=f"{variant.name}-{types}-{dict(bound.axes)}")


@needs_gcc
@pytest.mark.parametrize(("bound", "variant"), list(calls()))
def test_a_variant_computes_the_reference(
    bound: Bound, variant: Variant, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_of_call(bound, variant, tmp_path_factory) is None
