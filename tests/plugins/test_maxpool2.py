"""The 2x2 pool: its own source, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import expected_outputs, kernel_inputs, plain_inputs

KERNEL = registry.kernel("maxpool2")
# An odd height and width, whole packs with an even and an odd height, the smallest image.
SIZES = (
    {"n": 3, "c": 5, "h": 7, "w": 9},
    {"n": 5, "c": 6, "h": 24, "w": 24},
    {"n": 3, "c": 3, "h": 5, "w": 64},
    {"n": 1, "c": 1, "h": 2, "w": 2},
)


@needs_gcc
@pytest.mark.parametrize("axes", SIZES, ids=str)
def test_the_source_computes_the_reference(axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    bound = KERNEL.bind_axes(axes, KERNEL.types_named("fp32"))
    plain = plain_inputs(bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(bound, plain)
    for variant in filter(bound.fits, KERNEL.variants):
        (found,) = computed_on_cpu(bound, variant, kernel_inputs(bound, plain), tmp_path_factory)
        assert (found == wanted).all(), variant.name
