"""Squeeze and excite on the CPU: its own source, a fiber for each thread, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import AttributeValue, registry

KERNEL = registry.kernel("squeeze_excite")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
# Odd channels and planes, for blocks of threads alone.
ODD: Sizes = ({"n": 2, "c": 13, "h": 3, "w": 5, "s": 3}, {"activation": "relu", "gate": "sigmoid"})
# Planes that several warps add; the last blocks of a cluster have fewer channels, or none.
FEW: Sizes = ({"n": 2, "c": 12, "h": 6, "w": 10, "s": 4}, {"activation": "silu", "gate": "sigmoid"})
# Planes of odd sizes, whose pieces are multiples of four channels, and several rows of weights for eight lanes.
UNEVEN: Sizes = ({"n": 2, "c": 608, "h": 3, "w": 3, "s": 70}, {"activation": "hardswish", "gate": "hardsigmoid"})
HALVES: Sizes = ({"n": 2, "c": 128, "h": 3, "w": 3, "s": 9}, {"activation": "silu", "gate": "sigmoid"})
# One pixel an image, one channel between the layers.
ONE: Sizes = ({"n": 3, "c": 64, "h": 1, "w": 1, "s": 1}, {"activation": "none", "gate": "hardsigmoid"})
RUNS = [
    *[(variant, sizes, "fp32") for variant in ("by8", "block") for sizes in (FEW, UNEVEN, ONE)],
    ("block", ODD, "fp32"),
    *[(variant, HALVES, types) for variant in ("by8", "block") for types in ("fp16", "bf16")],
]


def test_every_variant_is_tried_where_it_can_run() -> None:
    assert {variant for variant, *_ in RUNS} == {variant.name for variant in KERNEL.variants}
    for variant, (axes, attributes), types in RUNS:
        assert KERNEL.bind_axes(axes, KERNEL.types_named(types), attributes).fits(KERNEL.variant(variant))


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes", "types"),
    [pytest.param(*run, marks=pytest.mark.slow if run[2] == "bf16" else []) for run in RUNS],
    ids=str,
)
def test_a_variant_computes_the_reference(
    variant: str, sizes: Sizes, types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, *sizes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("variant", ["by8", "block"])
def test_what_is_not_finite_reaches_the_gates_of_its_image(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 5, 3, 3] = value

    assert disagreement_on_cpu(KERNEL, variant, *FEW, change, tmp_path_factory) is None
