"""Declare ``conv3x3_half_add``: a 3x3 convolution of channels-last maps, a residual connection, an activation."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel

from ..channels_last.declaration import (
    ATTRIBUTES,
    AXES,
    BIAS,
    CLAIMS_OF_SUMS,
    EIGHT,
    FILTERS,
    FLOPS,
    IN_GROUPS,
    JOINED_BY,
    OTHER,
    OUTPUTS,
    PACKING,
    TYPES,
    X,
    variants_of,
)
from ..channels_last.declaration import reference as convolution
from ..channels_last.pattern import ADDED
from ..few_channels.declaration import k
from ..windows.activation import ACTIVATIONS
from ..windows.declaration import c, h, n, w


def reference(
    x: np.ndarray, other: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Compute the convolution, add, then compute the activation."""
    return ACTIVATIONS[activation](convolution(x, weights, bias, activation="none") + other)


KERNEL = Kernel(
    name="conv3x3_half_add",
    doc="y = act(Conv(x, w, bias) + other), 3x3 filters with a padding of 1, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=(X, OTHER, FILTERS, BIAS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=k.multiple_of(EIGHT),
    packing=PACKING,
    variants=variants_of(c, adds=True),
    patterns=ADDED,
    reference=reference,
    examples=(
        {"n": 1, "c": 16, "h": 3, "w": 5, "k": 16, "activation": "none"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "activation": "relu"},
        {"n": 2, "c": 40, "h": 16, "w": 27, "k": 72, "activation": "gelu"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 128, "activation": "relu"},
        {"n": 40, "c": 64, "h": 56, "w": 56, "k": 64, "activation": "relu"},
        {"n": 29, "c": 24, "h": 57, "w": 60, "k": 24, "activation": "none"},
        {"n": 5, "c": 264, "h": 14, "w": 14, "k": 200, "activation": "relu"},
    ),
    claims=CLAIMS_OF_SUMS,
    in_groups=IN_GROUPS,
    joined_by=JOINED_BY,
    flops=FLOPS + n * k * h * w,
    source_dir=Path(__file__).parent,
)
