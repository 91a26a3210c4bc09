"""Declare ``many_channel_conv_add``: a convolution from many channels to many, a residual connection, an activation."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, Tensor

from ..few_channels.declaration import reference as convolution
from ..many_channels.declaration import (
    ATTRIBUTES,
    AXES,
    EIGHTS,
    MEASURED,
    OUTPUTS,
    PACKING,
    POINTS_PAY,
    REQUIRES,
    TYPES,
    VARIANTS,
    WEIGHTS,
    WORK,
    X,
)
from ..many_channels.variants import k
from ..windows.activation import ACTIVATIONS
from ..windows.declaration import n, out_h, out_w
from .pattern import PATTERNS


def reference(
    x: np.ndarray,
    other: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    *,
    activation: str,
    size: int,
    stride: int,
    pad: int,
) -> np.ndarray:
    """Compute the convolution, add, then compute the activation."""
    sums = convolution(x, weights, bias, activation="none", size=size, stride=stride, pad=pad)
    return ACTIVATIONS[activation](sums + other)


KERNEL = Kernel(
    name="many_channel_conv_add",
    doc="y = act(Conv(x, w, bias) + other), square filters, from 16 channels or more to 16 or more, in fp32",
    axes=AXES,
    inputs=(X, Tensor("other", (n, k, out_h, out_w), "T", "what is added"), *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 16, "h": 3, "w": 5, "k": 16, "size": 3, "stride": 1, "pad": 1, "activation": "none"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 5, "c": 48, "h": 14, "w": 14, "k": 136, "size": 1, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 128, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 5, "c": 264, "h": 14, "w": 14, "k": 200, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 9, "c": 40, "h": 55, "w": 56, "k": 136, "size": 3, "stride": 2, "pad": 1, "activation": "relu"},
        {"n": 4, "c": 344, "h": 16, "w": 15, "k": 512, "size": 3, "stride": 2, "pad": 1, "activation": "none"},
    ),
    # TensorRT 8.6.0 on an H200 chose no Winograd kernel that adds.
    claims=(MEASURED & EIGHTS, MEASURED & POINTS_PAY),
    flops=WORK.flops + n * k * out_h * out_w,
    source_dir=Path(__file__).parent,
)
