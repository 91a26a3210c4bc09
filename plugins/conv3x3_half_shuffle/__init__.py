"""Declare ``conv3x3_half_shuffle``: a 3x3 convolution of channels-last maps, and the pixel shuffle that follows it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, Tensor

from ..channels_last.declaration import (
    ATTRIBUTES,
    AXES,
    BIAS,
    DEPTH,
    FEW_FILTERS,
    FILTERS,
    FLOPS,
    FULL_LINES,
    MANY_PIXELS,
    MOST_LINE_STEPS,
    PACKING,
    TYPES,
    X,
    by_lines,
    direct,
)
from ..channels_last.declaration import reference as convolution
from ..channels_last.pattern import SHUFFLED
from ..few_channels.declaration import k
from ..windows.declaration import c, h, n, w

SQUARE = 4
MANY = 2**18


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution, then make a square of 2x2 pixels of each four of its filters."""
    y = convolution(x, weights, bias, activation=activation)
    images, filters, height, width = y.shape
    squares = y.reshape(images, filters // SQUARE, 2, 2, height, width).transpose(0, 1, 4, 2, 5, 3)
    return squares.reshape(images, filters // SQUARE, 2 * height, 2 * width)


KERNEL = Kernel(
    name="conv3x3_half_shuffle",
    doc="y = PixelShuffle(act(Conv(x, w, bias)), 2), 3x3 filters with a padding of 1, channels last, fp16 and bf16",
    axes=AXES,
    inputs=(X, FILTERS, BIAS),
    outputs=(Tensor("y", (n, k // SQUARE, 2 * h, 2 * w), "T", "images of four times as many pixels"),),
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=k.multiple_of(SQUARE) & (k <= FEW_FILTERS),
    packing=PACKING,
    # On Hopper also where conv3x3_half prefers tiles, which this kernel does not have.
    variants=(replace(by_lines(c), prefer=None), direct()),
    patterns=SHUFFLED,
    reference=reference,
    examples=(
        {"n": 1, "c": 8, "h": 3, "w": 5, "k": 4, "activation": "gelu"},
        {"n": 2, "c": 64, "h": 16, "w": 70, "k": 12, "activation": "none"},
        {"n": 29, "c": 24, "h": 57, "w": 60, "k": 32, "activation": "silu"},
    ),
    # Where conv3x3_half goes line by line too; elsewhere it prefers tiles.
    claims=(MANY_PIXELS & FULL_LINES & (n * h * w >= MANY) & (c <= DEPTH * MOST_LINE_STEPS),),
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
