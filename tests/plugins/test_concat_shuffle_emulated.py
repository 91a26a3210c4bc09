"""The channel shuffle of two tensors on the CPU: its own source, a fiber for each thread, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import disagreement, expected_outputs, plain_inputs

# Vectors of one, two, four and eight elements; one block and several, the last one not full.
SIZES = ((2, 3, 3, 3), (2, 5, 2, 5), (3, 7, 6, 6), (5, 29, 12, 16))


@needs_gcc
@pytest.mark.parametrize("types", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["concat_shuffle", "concat_shuffle_split"])
def test_the_source_moves_every_element(
    name: str, sizes: tuple[int, ...], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel = registry.kernel(name)
    bound = kernel.bind_axes(dict(zip("nchw", sizes, strict=True)), kernel.types_named(types), {})
    plain = plain_inputs(bound, np.random.default_rng(0))
    plain[0][0, 1] = np.nan
    plain[1][1, 2] = -np.inf
    found = computed_on_cpu(bound, kernel.variant("copy"), plain, tmp_path_factory)
    for seen, wanted in zip(found, expected_outputs(bound, plain), strict=True):
        assert disagreement(seen, wanted, 0.0) is None
