"""Rows without a key are zeros by every variant on the GPU here, and the other rows of the same masks are right."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from lenet_trt.check.gpu_checks import Rig
from lenet_trt.cuda.driver import current_context
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import SEED, ExampleCase, cases, expected_outputs, plain_inputs, relative_error

SCALED = {"scale": 0.03125, "repeats": 3}
NORMED = {"rotary_attention": {}, "normed_rotary_attention": {"epsilon": 1e-6}}


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
    able = (variant for variant in kernel.variants if variant.min_sm <= sm and types in (variant.types or [types]))
    assert variants == {variant.name for variant in able}


@pytest.mark.parametrize("types", ["fp16", "bf16"])
@pytest.mark.parametrize("least", [False, True], ids=["infinity", "least"])
@pytest.mark.parametrize("name", ["rotary_attention", "normed_rotary_attention"])
def test_causal_masks_of_long_texts(name: str, least: bool, types: str) -> None:
    """Tiles of keys that the mask hides are left out, and nothing else is; NaN in a hidden key counts."""
    kernel = registry.kernel(name)
    axes = {"n": 1, "b": 2, "t": 1025, "g": 2, "d": 64, "mask_heads": 1, "mask_rows": 1025}
    bound = kernel.bind_axes(axes, kernel.types_named(types), {**SCALED, **NORMED[name]})
    plain = plain_inputs(bound, np.random.default_rng(SEED))
    mask = plain[3]
    mask[..., ~np.tri(1025, dtype=bool)] = ml_dtypes.finfo(mask.dtype).min if least else -np.inf
    mask[1, ..., :150] = -np.inf  # padding: no key for the first rows
    plain[0][0, 1, -1, 3, 1, 5] = np.nan  # of the last key of the second head, which three heads of queries share
    (wanted,) = expected_outputs(bound, plain)
    of_heads = wanted.reshape(2, 1025, 6, 64)
    assert np.isnan(of_heads[1, 150:, 3:]).all()
    assert not np.isnan(of_heads[0]).any()
    assert not np.isnan(of_heads[1, :, :3]).any()
    rig = Rig(ExampleCase(bound, kernel.variant("tiles")), plain)
    rig.launch()
    (got,) = rig.outputs()
    assert relative_error(got, wanted) <= bound.types.tolerance
