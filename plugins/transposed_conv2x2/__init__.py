"""Declare ``transposed_conv2x2``: a transposed convolution with 2x2 filters at stride 2, as decoders of images have it.

No two windows overlap: a pixel of x makes a square of 2x2 of each plane of y, by four filters of one tap.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Axis, Kernel, Packing, Tensor

from ..many_channels import declaration
from ..many_channels.declaration import CHANNELS, MEASURED, TYPES, X, packed_filters, unpacked
from ..many_channels.variants import Work, c, k, n, variants
from ..windows.activation import ACTIVATION, ACTIVATIONS, NODES
from ..windows.declaration import IMAGE, h, w
from .pattern import patterns

SQUARE = 4
AXES = (Axis("n", "images"), Axis("c", "channels of x", static=True), *IMAGE, Axis("k", "planes of y", static=True))
W = Tensor("w", (c, k, 2, 2), "T", "filters", weight=True)
BIAS = Tensor("bias", (k,), "T", "bias of each plane of y", weight=True)
WORK = Work(pixels=n * h * w, taps=1, filters=SQUARE * k)


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the transposed convolution, then the activation."""
    images, _, height, width = x.shape
    squares = np.tensordot(x, weights, axes=(1, 0))  # [n, h, w, k, 2, 2]
    y = squares.transpose(0, 3, 1, 4, 2, 5).reshape(images, -1, 2 * height, 2 * width)
    return ACTIVATIONS[activation](y + bias[:, None, None])


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Make four filters of one tap of each, row by row of its square, and pack them as those of a convolution."""
    channels = weights["w"].shape[0]
    filters = np.ascontiguousarray(weights["w"].transpose(1, 2, 3, 0)).reshape(-1, channels, 1, 1)
    return declaration.pack({"w": filters, "bias": weights["bias"]})


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it, up to the bits that two fp16 numbers do not have."""
    filters = unpacked(op, weights, 2)  # [4 k, c, 1, 1]
    by_channel = op.Transpose(filters, perm=[1, 0, 2, 3])
    return {"w": op.Reshape(by_channel, op.ints(0, -1, 2, 2)), "bias": weights["bias"]}


KERNEL = Kernel(
    name="transposed_conv2x2",
    doc="y = act(ConvTranspose(x, w, bias)), 2x2 filters at stride 2, from 16 channels or more to 16 or more, in fp32",
    axes=AXES,
    inputs=(X, *packed_filters(SQUARE * k, (1, 1)), BIAS),
    outputs=(Tensor("y", (n, k, 2 * h, 2 * w), "T", "feature maps"),),
    types=TYPES,
    attributes=(ACTIVATION,),
    requires=CHANNELS,
    packing=Packing((W, BIAS), pack, unpack),
    variants=variants(WORK, points=CHANNELS),
    patterns=patterns(NODES),
    reference=reference,
    examples=(
        {"n": 1, "c": 16, "h": 3, "w": 5, "k": 16, "activation": "gelu"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "activation": "relu"},
        {"n": 2, "c": 64, "h": 13, "w": 18, "k": 32, "activation": "none"},
        {"n": 5, "c": 40, "h": 9, "w": 20, "k": 24, "activation": "silu"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 64, "activation": "none"},
        {"n": 2, "c": 512, "h": 16, "w": 16, "k": 256, "activation": "relu6"},
        {"n": 4, "c": 64, "h": 128, "w": 128, "k": 32, "activation": "none"},
    ),
    claims=(MEASURED & (c >= 32) & (k >= 32),),
    flops=WORK.flops,
    source_dir=Path(__file__).parent,
)
