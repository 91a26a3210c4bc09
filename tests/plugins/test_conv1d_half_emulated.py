"""Convolutions along one axis with channels last: their own sources, run on the CPU in fp16 and bf16."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

PLAIN, TOKENS = "conv1d_half", "conv1d_half_tokens"
# Sequences that end within a tile, several tiles a block, and filters that fill no tile.
FEW = {"n": 1, "c": 8, "w": 7, "k": 32, "size": 3, "stride": 1, "pad": 1}
MANY = {"n": 3, "c": 40, "w": 150, "k": 136, "size": 3, "stride": 1, "pad": 1}
# Stages of 32 inputs (an odd number of chunks a tap), and of 64, whose last channels are zeros.
ODD = {"n": 2, "c": 80, "w": 131, "k": 72, "size": 3, "stride": 1, "pad": 1}
EVEN = {"n": 2, "c": 104, "w": 133, "k": 264, "size": 3, "stride": 1, "pad": 2}
# An even number of taps, pairs of positions, more padding than taps, and one tap.
PAIRS = {"n": 2, "c": 72, "w": 262, "k": 40, "size": 4, "stride": 2, "pad": 1}
HALF = {"n": 3, "c": 48, "w": 300, "k": 200, "size": 3, "stride": 2, "pad": 1}
BORDER = {"n": 2, "c": 24, "w": 6, "k": 40, "size": 2, "stride": 2, "pad": 5}
POINTS = {"n": 2, "c": 64, "w": 129, "k": 64, "size": 1, "stride": 1, "pad": 0}
LONG = {"n": 2, "c": 32, "w": 20, "k": 48, "size": 9, "stride": 1, "pad": 0}
# At stride 2 an odd number of steps is no whole number of pairs.
NO_PAIRS = {"n": 3, "c": 24, "w": 41, "k": 40, "size": 5, "stride": 2, "pad": 2}
CASES = [
    (PLAIN, "wide_wgmma", EVEN, "fp16", False),
    (PLAIN, "wide_wgmma", HALF, "bf16", True),
    (PLAIN, "wide_wgmma", MANY, "fp16", True),
    (PLAIN, "less_wide_wgmma", HALF, "fp16", True),
    (PLAIN, "wgmma", ODD, "fp16", False),
    (PLAIN, "wgmma", MANY, "bf16", True),
    (PLAIN, "wgmma", PAIRS, "fp16", True),
    (PLAIN, "wgmma", BORDER, "bf16", True),
    (PLAIN, "wgmma", POINTS, "fp16", True),
    (PLAIN, "wgmma", LONG, "bf16", True),
    (PLAIN, "by2_wgmma", HALF, "fp16", False),
    (PLAIN, "by2_wgmma", BORDER, "fp16", True),
    (PLAIN, "by4_wgmma", ODD, "bf16", True),
    (PLAIN, "by8_wgmma", EVEN, "fp16", True),
    (PLAIN, "direct", NO_PAIRS, "fp16", False),
    (PLAIN, "direct", FEW, "bf16", True),
    (TOKENS, "wgmma", HALF, "fp16", False),
    (TOKENS, "by2_wgmma", FEW, "bf16", True),
    (TOKENS, "direct", PAIRS, "fp16", True),
]


def split(sizes: dict[str, int], activation: str) -> tuple[dict[str, int], dict[str, int | str]]:
    """Return the axes, and the attributes."""
    axes = {name: size for name, size in sizes.items() if len(name) == 1}
    return axes, {"activation": activation, **{name: sizes[name] for name in sizes.keys() - axes.keys()}}


@needs_gcc
@pytest.mark.parametrize(
    ("name", "variant", "sizes", "types"),
    [pytest.param(*case, marks=[pytest.mark.slow] if slow else []) for *case, slow in CASES],
    ids=str,
)
def test_the_source_computes_the_reference(
    name: str, variant: str, sizes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    axes, attributes = split(sizes, "gelu")
    kernel = registry.kernel(name)
    assert disagreement_on_cpu(kernel, variant, axes, attributes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        ("wgmma", HALF),
        pytest.param("wide_wgmma", EVEN, marks=pytest.mark.slow),
        pytest.param("by2_wgmma", ODD, marks=pytest.mark.slow),
        pytest.param("wgmma", BORDER, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_launch_without_tensor_maps_computes_the_same(
    variant: str, sizes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    axes, attributes = split(sizes, "none")
    kernel = registry.kernel(PLAIN)
    found = disagreement_on_cpu(kernel, variant, axes, attributes, unchanged, tmp_path_factory, "fp16", maps=False)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", pytest.param("direct", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_what_is_not_finite_stays_in_its_windows(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        # The last step of a sequence, and the first one of the next: neighbours in memory, and in no window together.
        plain[0][0, 3, 0, -1] = plain[0][1, 5, 0, 0] = value

    axes, attributes = split(ODD, "none")
    kernel = registry.kernel(PLAIN)
    assert disagreement_on_cpu(kernel, variant, axes, attributes, change, tmp_path_factory, "fp16") is None
