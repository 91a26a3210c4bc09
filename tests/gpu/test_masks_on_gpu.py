"""Rows without a key are zeros by every variant on the GPU here, and the other rows of the same masks are right."""

from __future__ import annotations

import numpy as np
import pytest

from lenet_trt.check.gpu_checks import Rig
from lenet_trt.cuda.driver import current_context
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import SEED, cases, expected_outputs, plain_inputs, relative_error


@pytest.mark.parametrize("types", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", ["masked_attention", "masked_self_attention"])
def test_rows_without_a_key_are_zeros(name: str, types: str) -> None:
    kernel, sm, variants = registry.kernel(name), current_context().sm, set()
    for case in cases(kernel, sm):
        if case.bound.types.name != types:
            continue
        plain = plain_inputs(case.bound, np.random.default_rng(SEED))
        mask = plain[-1].reshape(-1, *plain[-1].shape[-2:])
        mask[-1, :, 1::3] = -np.inf
        mask[0] = -np.inf  # a text of padding alone; the whole mask, where it has one matrix
        (wanted,) = expected_outputs(case.bound, plain)
        hidden = wanted == 0
        assert hidden.any()
        rig = Rig(case, plain)
        rig.launch()
        (got,) = rig.outputs()
        assert not got[hidden].any(), case.variant.name
        assert relative_error(got, wanted) <= case.bound.types.tolerance, case.variant.name
        variants.add(case.variant.name)
    assert variants == {variant.name for variant in kernel.variants if variant.min_sm <= sm}
