"""The convolutions of few channels or filters: their own sources, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel.registry import kernel

# Odd sizes, more filters or channels than one pass takes, both ways to lay pixels on lanes.
LAYERS = {
    "7x7/2": ("few_channel_conv", {"n": 2, "c": 3, "h": 21, "w": 45, "k": 20}, {"size": 7, "stride": 2, "pad": 3}),
    "3x3/2": ("few_channel_conv", {"n": 1, "c": 3, "h": 20, "w": 64, "k": 16}, {"size": 3, "stride": 2, "pad": 1}),
    "5x5": ("few_channel_conv", {"n": 1, "c": 1, "h": 11, "w": 40, "k": 40}, {"size": 5, "stride": 1, "pad": 2}),
    "5x5 to 7": ("few_filter_conv", {"n": 1, "c": 11, "h": 9, "w": 28, "k": 7}, {"size": 5, "stride": 1, "pad": 2}),
    "4x4/2 to 3": ("few_filter_conv", {"n": 1, "c": 9, "h": 21, "w": 43, "k": 3}, {"size": 4, "stride": 2, "pad": 0}),
}
# Compiling takes seconds: some cases always, the others with the slow tests.
ALWAYS = (
    ("fp16", "7x7/2", "small"),
    ("fp32", "3x3/2", "small"),
    ("fp16", "5x5", "large"),
)
CASES = [
    pytest.param(layer, types.name, variant.name, marks=[] if case in ALWAYS else pytest.mark.slow)
    for layer, (name, _, _) in LAYERS.items()
    for types in kernel(name).types
    for variant in kernel(name).variants
    if variant.name != "wgmma"  # test_few_channel_wgmma_emulated.py
    for case in [(types.name, layer, variant.name)]
]


@needs_gcc
@pytest.mark.parametrize(("layer", "types", "variant"), CASES)
def test_a_variant_computes_the_reference(
    layer: str, types: str, variant: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def make_infinite(plain: list[np.ndarray]) -> None:
        plain[0].reshape(-1)[::97] = np.inf

    name, axes, sizes = LAYERS[layer]
    for change in (unchanged, make_infinite):
        attributes = {**sizes, "activation": "none"}
        assert disagreement_on_cpu(kernel(name), variant, axes, attributes, change, tmp_path_factory, types) is None
