"""Declare ``squeeze_excite``: channels of an image times gates, made of the means of the channels by two small layers.

Source: Hu, Shen, Sun, Squeeze-and-Excitation Networks, 2018.
"""

from pathlib import Path

import numpy as np

from lenet_trt.dims import ARCHITECTURE, axes, ceil_div, maximum, remainder, size_of
from lenet_trt.kernel import INT32_MAX, Attribute, Axis, Kernel, Launch, Tensor, Variant, float_types

from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import IMAGE, IN_FLOATS, IN_GROUPS, c, h, n, w
from .pattern import GATES, PATTERNS

(s,) = axes("s")
THREADS, LANES, BLOCKS = 512, 8, 8
GROUPS = THREADS // LANES
FULL = 8 * LANES
# Weights of a thread that registers hold.
MOST_WEIGHTS = 64
SHARED_LIMIT = 227 * 1024
eighth, pack = ceil_div(c, BLOCKS), 16 // size_of("T")
# Channels of a block; bulk copies move multiples of 16 bytes.
own = eighth + remainder(h * w, 2) * (ceil_div(eighth, pack) * pack - eighth)
planes_bytes = own * h * w * size_of("T")
# Source: ``Rest`` in cluster.cu.
rest_floats = BLOCKS * s + 2 * own + 32 + FULL * (ceil_div(own, FULL) + ceil_div(s, FULL))
shared_bytes = ceil_div(planes_bytes + ceil_div(8 * 5 + 4 * rest_floats, 8) * 8, 16) * 16
weights = maximum(ceil_div(s, GROUPS) * ceil_div(own, LANES), ceil_div(own, GROUPS) * ceil_div(s, LANES))
# Bulk copies move multiples of 16 bytes, of whole images and of the channels of a block.
IN_BULK = planes_bytes.multiple_of(16) & (c * h * w * size_of("T")).multiple_of(16)
KEPT = IN_BULK & (weights <= MOST_WEIGHTS) & (maximum(s, own) <= THREADS) & (shared_bytes <= SHARED_LIMIT)
CLAIMED = IN_FLOATS & KEPT & ARCHITECTURE.equals(90)


def reference(
    x: np.ndarray,
    w1: np.ndarray,
    b1: np.ndarray,
    w2: np.ndarray,
    b2: np.ndarray,
    *,
    activation: str,
    gate: str,
) -> np.ndarray:
    """Compute the means, both layers and the gates, and scale the images."""
    hidden = ACTIVATIONS[activation](x.mean(axis=(2, 3)) @ w1[:, :, 0, 0].T + b1)
    gates = GATES[gate](hidden @ w2[:, :, 0, 0].T + b2)
    return np.asarray(x * gates[:, :, None, None])


KERNEL = Kernel(
    name="squeeze_excite",
    doc="y = x * gate(Conv(act(Conv(GlobalAveragePool(x), w1, b1)), w2, b2)), with 1x1 filters",
    axes=(
        Axis("n", "images"),
        Axis("c", "channels", static=True),
        *IMAGE,
        Axis("s", "channels between the two layers", static=True),
    ),
    inputs=(
        Tensor("x", (n, c, h, w), "T", "images"),
        Tensor("w1", (s, c, 1, 1), "T", "weights of the first layer", weight=True),
        Tensor("b1", (s,), "T", "biases of the first layer", weight=True),
        Tensor("w2", (c, s, 1, 1), "T", "weights of the second layer", weight=True),
        Tensor("b2", (c,), "T", "biases of the second layer", weight=True),
    ),
    outputs=(Tensor("y", (n, c, h, w), "T", "scaled images"),),
    types=float_types(),
    attributes=(ACTIVATION, Attribute("gate", tuple(GATES), "the function of a gate")),
    requires=(c <= 4096) & (s <= 1024) & (n <= INT32_MAX // BLOCKS),
    # Each image loads all weights: with many, or for many images, TensorRT's products of all images are as fast.
    claims=(CLAIMED & (s <= 64), CLAIMED & (n <= 64) & (s <= 4 * h * w)),
    in_groups=IN_GROUPS & KEPT,
    variants=(
        Variant(
            "by8",
            Launch((BLOCKS * n, 1, 1), (THREADS, 1, 1), extras=(n,), shared_bytes=shared_bytes),
            "a cluster an image, which stays in shared memory",
            source="cluster.cu",
            min_sm=90,
            only_sm=True,
            when=KEPT,
        ),
        Variant(
            "block",
            Launch((n, 1, 1), (THREADS, 1, 1), extras=(n,), shared_bytes=4 * (2 * c + s)),
            "a block an image, which is read twice",
            source="block.cu",
        ),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 1, "w": 1, "s": 1, "activation": "relu", "gate": "sigmoid"},
        {"n": 3, "c": 24, "h": 4, "w": 6, "s": 6, "activation": "silu", "gate": "sigmoid"},
        {"n": 2, "c": 45, "h": 8, "w": 8, "s": 9, "activation": "none", "gate": "hardsigmoid"},
        {"n": 3, "c": 100, "h": 5, "w": 3, "s": 70, "activation": "relu", "gate": "hardsigmoid"},
        {"n": 5, "c": 32, "h": 28, "w": 28, "s": 8, "activation": "silu", "gate": "sigmoid"},
        {"n": 33, "c": 672, "h": 7, "w": 7, "s": 28, "activation": "hardswish", "gate": "hardsigmoid"},
        {"n": 2, "c": 960, "h": 7, "w": 7, "s": 240, "activation": "relu", "gate": "hardsigmoid"},
        {"n": 2, "c": 144, "h": 56, "w": 56, "s": 6, "activation": "silu", "gate": "sigmoid"},
    ),
    flops=2 * n * c * h * w + 4 * n * c * s,
    source_dir=Path(__file__).parent,
)
