"""Declare ``global_average_pool``: the mean of each image of each channel."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, minimum, size_of
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Launch, Tensor, Variant, float_types

from ..windows.declaration import IN_FLOATS, IN_GROUPS, divisor_of
from .pattern import PATTERNS

n, c, h, w = axes("n c h w")
THREADS = 256
WARP = 32
FLIGHT = 8
MANY_PLANES = 30  # a multiprocessor
planes = n * c
# The planes of a warp: as many as keep FLIGHT loads of a lane in flight.
warp_planes = FLIGHT // minimum(ceil_div(h * w // divisor_of(h * w), WARP), FLIGHT)


def reference(x: np.ndarray) -> np.ndarray:
    """Compute the mean over height and width."""
    return x.mean(axis=(2, 3), keepdims=True)


KERNEL = Kernel(
    name="global_average_pool",
    doc="y = GlobalAveragePool(x), also written as a ReduceMean over height and width",
    axes=(
        Axis("n", "images"),
        Axis("c", "channels"),
        Axis("h", "height of an image", static=True),
        Axis("w", "width of an image", static=True),
    ),
    inputs=(Tensor("x", (n, c, h, w), "T", "images"),),
    outputs=(Tensor("y", (n, c, 1, 1), "T", "means"),),
    types=float_types(),
    claims=(IN_FLOATS,),
    in_groups=IN_GROUPS,
    variants=(
        Variant(
            "block",
            Launch((planes, 1, 1), (THREADS, 1, 1), extras=(planes,)),
            "a block a plane",
            # In 16 bits, warps are enough for many images: a block waits for its warps, and starts and ends more often.
            prefer=(h * w >= 1024) & (planes * (4 // size_of("T") - 1) <= MANY_PLANES * MULTIPROCESSORS),
        ),
        Variant(
            "warp",
            Launch((ceil_div(planes, THREADS // WARP * warp_planes), 1, 1), (THREADS, 1, 1), extras=(planes,)),
            "a warp one to eight planes",
        ),
    ),
    patterns=PATTERNS,
    # A lane counts vectors up to one round of a block beyond the last.
    max_elements=INT32_MAX - THREADS * FLIGHT,
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 1, "w": 1},
        {"n": 3, "c": 5, "h": 7, "w": 7},
        {"n": 1, "c": 64, "h": 56, "w": 56},
        {"n": 33, "c": 24, "h": 14, "w": 14},
        {"n": 2, "c": 3, "h": 31, "w": 70},
    ),
    flops=n * c * h * w,
    source_dir=Path(__file__).parent,
)
