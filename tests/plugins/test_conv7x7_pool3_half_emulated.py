"""The stem of a ResNet in 16 bits: its own sources, run on the CPU, with strips and images that end within a block."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("conv7x7_pool3_half")
# One output; filters that fill no block; two strips; odd rows, and images that several blocks share; two blocks of
# filters.
ONE = {"n": 1, "c": 1, "h": 1, "w": 8, "k": 8}
TALL = {"n": 1, "c": 2, "h": 37, "w": 40, "k": 40}
WIDE = {"n": 1, "c": 3, "h": 9, "w": 264, "k": 16}
SEVERAL = {"n": 3, "c": 3, "h": 13, "w": 56, "k": 64}
BLOCKS = {"n": 2, "c": 3, "h": 6, "w": 48, "k": 72}


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types", "activation"),
    [
        ("wgmma", TALL, "fp16", "relu"),
        ("wgmma", SEVERAL, "bf16", "none"),
        ("wgmma", TALL, "fp16_x_fp32", "none"),
        pytest.param("wgmma", ONE, "fp16", "none", marks=pytest.mark.slow),
        pytest.param("wgmma", WIDE, "fp16", "relu6", marks=pytest.mark.slow),
        pytest.param("wgmma", BLOCKS, "bf16", "relu", marks=pytest.mark.slow),
        ("direct", TALL, "fp16", "relu6"),
        pytest.param("direct", SEVERAL, "bf16_x_fp32", "relu", marks=pytest.mark.slow),
        pytest.param("direct", BLOCKS, "bf16", "none", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, activation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    attributes = {"activation": activation}
    assert disagreement_on_cpu(KERNEL, variant, axes, attributes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 65504.0])
def test_what_is_not_finite_stays_in_its_windows(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Among the 8 columns that a product takes for an output is one that the output has no filter for."""

    def change(plain: list[np.ndarray]) -> None:
        plain[0][0, 1, 3, 20] = value
        plain[0][1, 0, 7, 33] = value
        plain[0][2, 2, 12, 55] = value

    attributes = {"activation": "none"}
    assert disagreement_on_cpu(KERNEL, "wgmma", SEVERAL, attributes, change, tmp_path_factory, "fp16") is None
