"""Declare ``linear``: a dense layer over the last axis, with bias and an optional activation, in fp32."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import BesidePlugins, Kernel, Packing, Types

from ..dense.declaration import n
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
from .packing import inputs_of_x
from .pattern import PATTERNS
from .split_weights import pack_split, split_rows, split_weights


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the product with bias, then the activation."""
    return ACTIVATIONS[activation](x @ w.T + bias)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pack the weights."""
    return pack_split(weights["w"], weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    return {"w": split_rows(op, weights, inputs_of_x(op)), "bias": weights["bias"]}


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
    inputs=(X, *split_weights(LAYER, BIAS)),
    outputs=(Y,),
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=(ACTIVATION,),
    requires=LAYER.requires,
    packing=PACKING,
    variants=(*LAYER.narrow(element_bytes=4), LAYER.direct("linear_direct")),
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    claims=(*(WIDE_ENOUGH & enough for enough in ENOUGH), MUCH),
    beside_plugins=BesidePlugins(sizes=WIDE_ENOUGH & BESIDE),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
