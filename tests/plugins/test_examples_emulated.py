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
# Of these only the first variant that runs here is not slow: the others are much the same source.
ALIKE = (
    "average_pool",
    "max_pool",
    "global_average_pool",
    "softmax",
    "scale_add_softmax",
    "rms_norm",
    "channel_layer_norm",
    "few_filter_conv",
)
# Bulk copies to device memory, and clusters with shared memory of a fixed size, do not run here.
NOT_HERE = {("softmax", "tile"), ("softmax", "cluster")}
POINTWISE = ("pointwise_conv", "pointwise_conv_add")
MOST_ELEMENTS = 250_000  # of outputs, each of which a CPU computes
MOST_POINTWISE = 150_000
MOST_ALIKE = 100_000


def calls() -> Iterator[object]:
    """Two calls of each variant in fp32 and fp16, or in the type that it is for; compiling them takes seconds.

    Only the first one of each variant is not slow.
    """
    for name in NAMES:
        for variant in kernel(name).variants:
            for index, types in enumerate(variant.types or ("fp32", "fp16")):
                alike = (bound for bound in bounds(kernel(name)) if bound.types.name == types and bound.fits(variant))
                first, *_, last = (bound for bound in alike if 1 < prod(bound.output_shapes[0]) < MOST_ELEMENTS)
                for bound, marks in ((first, pytest.mark.slow if index else []), (last, pytest.mark.slow)):
                    yield pytest.param(bound, variant, marks=marks, id=f"{variant.name}-{types}-{dict(bound.axes)}")


def alike_calls() -> Iterator[object]:
    """One call of each variant, the largest example that is small, in the first type that it is for."""
    for name in ALIKE:
        here = [variant for variant in kernel(name).variants if (name, variant.name) not in NOT_HERE]
        for index, variant in enumerate(here):
            fitting = [bound for bound in bounds(kernel(name)) if bound.fits(variant) and not bound.empty]
            small = [bound for bound in fitting if prod(bound.output_shapes[0]) < MOST_ALIKE]
            yield pytest.param(
                max(small, key=lambda bound: prod(bound.output_shapes[0])),
                variant,
                marks=pytest.mark.slow if index else [],
                id=f"{name}-{variant.name}",
            )


def pointwise_calls() -> Iterator[object]:
    """Each variant for images of an odd number of pixels, and a third of the other examples.

    One variant of the kernel that adds is not slow, since the rest is the same source.
    """
    for name in POINTWISE:
        for variant in kernel(name).variants:
            fitting = (bound for bound in bounds(kernel(name)) if bound.fits(variant))
            small = [bound for bound in fitting if prod(bound.output_shapes[0]) < MOST_POINTWISE]
            for index, bound in enumerate(small):
                odd = bound.types.name == "fp16" and dict(bound.axes)["h"] == 7
                quick = odd and (name == POINTWISE[0] or variant is kernel(name).variants[0])
                if odd or index % 3 == 0:
                    marks = [] if quick else [pytest.mark.slow]
                    yield pytest.param(
                        bound, variant, marks=marks, id=f"{name}-{variant.name}-{bound.types.name}-{dict(bound.axes)}"
                    )


@needs_gcc
@pytest.mark.parametrize(("bound", "variant"), [*calls(), *alike_calls(), *pointwise_calls()])
def test_a_variant_computes_the_reference(
    bound: Bound, variant: Variant, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_of_call(bound, variant, tmp_path_factory) is None
