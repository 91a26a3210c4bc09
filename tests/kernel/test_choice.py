"""Which variant a call gets: the choice of the shipped kernels changes only with a measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lenet_trt.kernel import registry

H200 = {"multiprocessors": 132}
CHOICES = json.loads(Path(__file__).with_name("choices.json").read_text())


@pytest.mark.parametrize("name", sorted(CHOICES["kernels"]))
def test_the_choice_over_a_grid_of_sizes_is_the_recorded_one(name: str) -> None:
    kernel = registry.kernel(name)
    for types, choices in CHOICES["kernels"][name].items():
        for variants, calls in choices.items():
            for call in calls:
                axes = dict(zip((axis.name for axis in kernel.axes), map(int, call.split()), strict=True))
                bound = kernel.bind_axes(axes, kernel.types_named(types))
                taken = {sm: bound.variant(sm, H200).name for sm in CHOICES["sm"]}
                assert taken == dict(zip(CHOICES["sm"], variants.split(), strict=True)), (types, axes)
