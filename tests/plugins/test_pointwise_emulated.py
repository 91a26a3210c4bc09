"""The pointwise convolutions: the source of every variant, run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest

from kernel_on_cpu import disagreement_of_call, needs_gcc
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.registry import kernel
from lenet_trt.kernel.variants import Variant

NAMES = ("pointwise_conv", "pointwise_conv_add")
MOST_ELEMENTS = 150_000  # of outputs, each of which a CPU computes


def calls() -> Iterator[object]:
    """Each variant at sizes that are no multiples of its tiles, and at others; compiling them takes seconds."""
    for name in NAMES:
        for variant in kernel(name).variants:
            fitting = [
                bound
                for bound in bounds(kernel(name))
                if bound.fits(variant) and prod(bound.output_shapes[0]) < MOST_ELEMENTS
            ]
            for index, bound in enumerate(fitting):
                quick = bound.types.name == "fp16" and dict(bound.axes)["h"] == 7
                marks = [] if quick else [pytest.mark.slow]
                if quick or index % 3 == 0:
                    yield pytest.param(
                        bound, variant, marks=marks, id=f"{name}-{variant.name}-{bound.types.name}-{dict(bound.axes)}"
                    )


@needs_gcc
@pytest.mark.parametrize(("bound", "variant"), list(calls()))
def test_a_variant_computes_the_reference(
    bound: Bound, variant: Variant, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_of_call(bound, variant, tmp_path_factory) is None
