"""Declare what ``concat_shuffle`` and ``concat_shuffle_split`` share."""

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import INT32_MAX, Axis, Launch, Tensor, Variant

from ..windows.declaration import IMAGE, divisor_of

n, c, h, w = axes("n c h w")
THREADS, AT_ONCE = 256, 4
# Vectors of both tensors are counted together, up to one round of a block beyond the last.
MOST_ELEMENTS = INT32_MAX // 2 - THREADS * AT_ONCE

AXES = (Axis("n", "images"), Axis("c", "channels of each tensor", static=True), *IMAGE)
INPUTS = (
    Tensor("a", (n, c, h, w), "T", "channels 0, 2, 4, ... of the result"),
    Tensor("b", (n, c, h, w), "T", "channels 1, 3, 5, ... of the result"),
)
EXAMPLES = (
    {"n": 1, "c": 1, "h": 1, "w": 1},
    {"n": 3, "c": 5, "h": 7, "w": 7},
    {"n": 2, "c": 58, "h": 14, "w": 14},
    {"n": 33, "c": 29, "h": 28, "w": 26},
)


# Of planes.cuh; 16-bit planes of 8 k elements need half of these blocks.
_vectors = 2 * n * c * (h * w // divisor_of(h * w))
_LAUNCH = Launch((ceil_div(_vectors, THREADS * AT_ONCE), 1, 1), (THREADS, 1, 1), extras=(n,))
VARIANTS = (Variant("copy", _LAUNCH, "a copy"),)


def in_turns(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the channels of both in turns."""
    return np.stack((a, b), axis=2).reshape(len(a), 2 * a.shape[1], *a.shape[2:])
