"""Kernels by wgmma that hold outputs while the next tile is multiplied: no array of theirs is in local memory."""

from __future__ import annotations

import pytest

from lenet_trt.cuda.resources import resources_of
from lenet_trt.kernel import registry

# Steps that store a part of the outputs each; steps that store several; no step that does.
CASES = [
    ("linear_half", "wide_wgmma", {"n": 6304, "in": 768, "out": 2304}, {"activation": "gelu"}),
    ("linear_half", "less_wide_wgmma", {"n": 6304, "in": 96, "out": 384}, {"activation": "none"}),
    ("transposed_conv2x2_half", "wide_wgmma", {"n": 32, "h": 16, "w": 16, "c": 288, "k": 64}, {"activation": "none"}),
    ("transposed_conv2x2_half", "wide_wgmma", {"n": 32, "h": 64, "w": 64, "c": 128, "k": 64}, {"activation": "none"}),
    ("conv3x3_half_add", "wgmma", {"n": 32, "h": 56, "w": 56, "c": 64, "k": 64}, {"activation": "relu"}),
    ("conv3x3_half", "wgmma", {"n": 32, "h": 56, "w": 56, "c": 40, "k": 64}, {"activation": "relu"}),
]


@pytest.mark.parametrize(("name", "variant", "axes", "attributes"), CASES, ids=str)
def test_no_array_is_in_local_memory(name: str, variant: str, axes: dict[str, int], attributes: dict[str, str]) -> None:
    kernel = registry.kernel(name)
    bound = kernel.bind_axes(axes, kernel.types_named("fp16"), attributes)
    assert resources_of(bound, kernel.variant(variant), 90).local_bytes == 0
