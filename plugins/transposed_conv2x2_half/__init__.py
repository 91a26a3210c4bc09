"""Declare ``transposed_conv2x2_half``: a transposed convolution with 2x2 filters at stride 2, with channels last."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS
from lenet_trt.kernel import Kernel, Packing, Tensor, float_types

from ..channels_last.declaration import JOINED_BY, PACKED, X
from ..linear.declaration import EIGHT, HOPPER, Product
from ..linear.packing import inputs_of_x, pack_rows, to_rows
from ..many_channels.variants import k
from ..transposed_conv2x2 import AXES, BIAS, SQUARE, W, reference
from ..transposed_conv2x2.pattern import patterns
from ..windows.activation import ACTIVATION, NODES_IN_HALVES
from ..windows.declaration import c, h, n, w

PIXELS = n * h * w
ORDERED = 32  # outputs that have an order of their own as columns (layer.cuh)
LAYER = Product(PIXELS, c, SQUARE * k, extras=(PIXELS,), unit=ORDERED, mapped=True)
WEIGHTS = Tensor("weights", LAYER.packed(1), "T", "w, laid out for wgmma (layer.cuh)", weight=True)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Make rows of the filters, pixel by pixel of a square, and lay them out for wgmma, in the order of its columns."""
    channels = weights["w"].shape[0]
    outputs = weights["w"].transpose(2, 3, 1, 0).reshape(-1, 4, 4, 2, channels)  # output 8 t + 2 j + e of 32
    return pack_rows(outputs.transpose(0, 2, 1, 3, 4).reshape(-1, channels), weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    bias, channels = weights["bias"], inputs_of_x(op)
    columns = to_rows(op, weights["weights"], op.Concat(*[bias] * SQUARE, axis=0), channels)
    parts = op.Reshape(columns, op.Concat(op.ints(-1, 4, 4, 2), channels, axis=0))
    outputs = op.Transpose(parts, perm=[0, 2, 1, 3, 4])
    squares = op.Reshape(outputs, op.Concat(op.ints(2, 2, -1), channels, axis=0))
    return {"w": op.Transpose(squares, perm=[3, 2, 0, 1]), "bias": bias}


WIDE = 256  # columns
MANY = 2 * LAYER.tiles(WIDE) >= MULTIPROCESSORS
# Numbers of x and y together, for which both memory and TensorRT's own layers take their time.
MUCH = PIXELS * (c + SQUARE * k) >= 10_000_000

KERNEL = Kernel(
    name="transposed_conv2x2_half",
    doc="y = act(ConvTranspose(x, w, bias)), 2x2 filters at stride 2, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=(X, WEIGHTS, BIAS),
    outputs=(Tensor("y", (n, k, 2 * h, 2 * w), "T", "feature maps", layout=PACKED),),
    types=float_types()[1:],
    attributes=(ACTIVATION,),
    requires=c.multiple_of(EIGHT) & k.multiple_of(EIGHT),
    packing=Packing((W, BIAS), pack, unpack),
    variants=(
        LAYER.by_wgmma("staying_wgmma", 2, most_columns=WIDE, weights_stay=True, prefer=MANY),
        LAYER.by_wgmma("wide_wgmma", 2, most_columns=WIDE, prefer=MANY),
        LAYER.by_wgmma("wgmma", 2),
        LAYER.direct("transposed_conv2x2_half_direct"),
    ),
    patterns=patterns(NODES_IN_HALVES),
    reference=reference,
    examples=(
        {"n": 1, "c": 8, "h": 3, "w": 5, "k": 8, "activation": "gelu"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "activation": "relu"},
        {"n": 2, "c": 72, "h": 13, "w": 18, "k": 72, "activation": "none"},
        {"n": 5, "c": 40, "h": 9, "w": 20, "k": 24, "activation": "silu"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 64, "activation": "hardswish"},
        {"n": 2, "c": 512, "h": 16, "w": 16, "k": 256, "activation": "relu6"},
        {"n": 41, "c": 40, "h": 14, "w": 15, "k": 72, "activation": "none"},
        {"n": 43, "c": 264, "h": 14, "w": 15, "k": 128, "activation": "gelu"},
        {"n": 4, "c": 64, "h": 128, "w": 128, "k": 32, "activation": "none"},
    ),
    claims=(HOPPER & MUCH,),
    in_groups=HOPPER & (c >= 64),  # as in a U-Net; with fewer it was not measured
    joined_by=JOINED_BY,
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
