"""Declare ``linear``: a dense layer over the last axis, with bias and an optional activation, in fp32."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import BesidePlugins, Kernel, Packing, Tensor, Types

from ..dense.declaration import n, outputs
from ..split_floats.packing import join, split
from ..windows.activation import ACTIVATION, ACTIVATIONS
from .declaration import (
    AXES,
    BIAS,
    EXAMPLES,
    LAYER,
    MUCH,
    WIDE_ENOUGH,
    W,
    X,
    Y,
)
from .packing import inputs_of_x, to_blocks, to_rows
from .pattern import PATTERNS

WEIGHTS = (
    Tensor(
        "weights",
        LAYER.packed(2),
        "float16",
        "w, divided by its output's scale, as two fp16 numbers (packed.cuh)",
        weight=True,
    ),
    Tensor("scales", (outputs,), "T", "a power of two for each output", weight=True),
    BIAS,
)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the product with bias, then the activation."""
    return ACTIVATIONS[activation](x @ w.T + bias)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Split each output's weights, divided by a power of two, and lay them out for wgmma."""
    both, scales = split(weights["w"])
    return {"weights": to_blocks(both), "scales": scales, "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it, up to the bits that two fp16 numbers do not have."""
    scales = weights["scales"]
    rows = to_rows(op, join(op, weights["weights"], axis=1), scales, inputs_of_x(op))
    return {"w": op.Mul(rows, op.Reshape(scales, op.ints(-1, 1))), "bias": weights["bias"]}


PACKING = Packing((W, BIAS), pack, unpack)


# Three products of fp16 pay where tensor cores have many times the rate of the CUDA cores. In engines of TensorRT 8.6.0
# on an H200, layers of 33 to 67 million operations lost where they had 49 or 128 rows, or 64 inputs; those of 58
# million and 197 rows won.
ENOUGH = (LAYER.flops >= 100_000_000, (LAYER.flops >= 55_000_000) & (n >= 192))

# Beside plugins that is another matter: one text of 128 words took 162 us with layers of 17 to 67 million operations as
# plugins, and 189 without, on an H100 (its attention as plugins in both).
BESIDE = (LAYER.flops >= 10_000_000) & (n >= 49)

KERNEL = Kernel(
    name="linear",
    doc="y = act(Gemm(x, w, bias)) over the last axis, w [out, in], in fp32",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=(Y,),
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=(ACTIVATION,),
    requires=LAYER.requires,
    packing=PACKING,
    variants=(*LAYER.narrow(element_bytes=4, loaders=128, blocks=1), LAYER.direct("linear_direct")),
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    claims=(*(WIDE_ENOUGH & enough for enough in ENOUGH), MUCH),
    beside_plugins=BesidePlugins(sizes=WIDE_ENOUGH & BESIDE),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
