"""Declare ``conv3x3_half_concat``: a 3x3 convolution of two channels-last maps that are joined, and an activation."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import Axis, Kernel, Tensor

from ..channels_last.declaration import (
    ATTRIBUTES,
    AXES,
    BIAS,
    EIGHT,
    JOINED_BY,
    MEASURED,
    OUTPUTS,
    PACKED,
    TYPES,
    X,
    claims_of,
    filters_of,
    flops_of,
    in_groups_of,
    packing_of,
    variants_of,
)
from ..channels_last.declaration import reference as convolution
from ..channels_last.pattern import JOINED
from ..windows.declaration import c, h, n, w

(d,) = axes("d")
channels = c + d
MUCH = 16_000_000


def reference(
    x: np.ndarray, other: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Join the channels, then compute the convolution and the activation."""
    return convolution(np.concatenate([x, other], axis=1), weights, bias, activation=activation)


KERNEL = Kernel(
    name="conv3x3_half_concat",
    doc="y = act(Conv(Concat(x, other), w, bias)), 3x3 filters with a padding of 1, channels last, in fp16 and bf16",
    axes=(*AXES, Axis("d", "channels of other", static=True)),
    inputs=(X, Tensor("other", (n, d, h, w), "T", "what is joined to x", layout=PACKED), filters_of(channels), BIAS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=c.multiple_of(EIGHT) & d.multiple_of(EIGHT),
    packing=packing_of(channels, "x", "other"),
    variants=variants_of(c, d),
    patterns=JOINED,
    reference=reference,
    examples=(
        {"n": 1, "c": 8, "d": 8, "h": 3, "w": 5, "k": 16, "activation": "none"},
        {"n": 3, "c": 24, "d": 16, "h": 7, "w": 7, "k": 40, "activation": "relu"},
        {"n": 2, "c": 8, "d": 40, "h": 16, "w": 27, "k": 72, "activation": "silu"},
        {"n": 33, "c": 40, "d": 32, "h": 28, "w": 28, "k": 128, "activation": "relu"},
        {"n": 32, "c": 64, "d": 64, "h": 56, "w": 56, "k": 64, "activation": "relu"},
        {"n": 29, "c": 24, "d": 32, "h": 57, "w": 60, "k": 24, "activation": "gelu"},
        {"n": 5, "c": 264, "d": 72, "h": 14, "w": 14, "k": 200, "activation": "relu"},
        {"n": 4, "c": 256, "d": 256, "h": 7, "w": 7, "k": 512, "activation": "relu"},
    ),
    # Of many channels TensorRT's own is a little faster, but where the Concat stays, it copies what
    # transposed_conv2x2_half gives, which gains more from this size on.
    claims=(*claims_of(channels), MEASURED & (channels >= 256) & (n * h * w * channels >= MUCH)),
    in_groups=in_groups_of(channels),
    joined_by=JOINED_BY,
    flops=flops_of(channels),
    source_dir=Path(__file__).parent,
)
