"""Declare ``conv1d_half_tokens``: the convolution of ``conv1d_half``, and the transposition to tokens behind it."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, Tensor

from ..conv1d_half.declaration import (
    ATTRIBUTES,
    AXES,
    CLAIMS,
    EXAMPLES,
    FLOPS,
    INPUTS,
    PACKING,
    REQUIRES,
    TYPES,
    variants,
)
from ..conv1d_half.declaration import reference as convolution
from ..conv1d_half.pattern import TOKENS
from ..many_channels.variants import k
from ..windows.declaration import n, out_w


def reference(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str, size: int, stride: int, pad: int
) -> np.ndarray:
    """Compute the convolution and the activation, then put channels last."""
    y = convolution(x, weights, bias, activation=activation, size=size, stride=stride, pad=pad)
    return np.swapaxes(y[:, :, 0], 1, 2)


NAME = "conv1d_half_tokens"
KERNEL = Kernel(
    name=NAME,
    doc="y = Transpose(act(Conv(x, w, bias))) along one axis, at stride 1 or 2, in fp16 and bf16",
    axes=AXES,
    inputs=INPUTS,
    outputs=(Tensor("y", (n, out_w, k), "T", "tokens"),),
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=variants(NAME),
    patterns=TOKENS,
    reference=reference,
    examples=EXAMPLES,
    claims=CLAIMS,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
