"""Declare ``maxpool2``: max-pool with 2x2 windows and stride 2."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import DimLike, axes, ceil_div, size_of
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Variant, float_types

from ..windows.declaration import IN_FLOATS
from .pattern import PATTERNS

n, c, h, w = axes("n c h w")
THREADS = 256
PACKS, STORE_BYTES = 2, 8  # of a thread, of a pack's outputs


def reference(x: np.ndarray) -> np.ndarray:
    """Compute the largest element of each window; NaN wins; an odd last row or column is left out."""
    batch, channels, height, width = x.shape
    windows = x[:, :, : height // 2 * 2, : width // 2 * 2].reshape(batch, channels, height // 2, 2, width // 2, 2)
    return windows.max(axis=(3, 5))


def launch(outputs_per_thread: DimLike) -> Launch:
    """Make the launch for kernels in which one thread computes this many outputs."""
    threads = ceil_div(n * c * (h // 2) * (w // 2), outputs_per_thread)
    return Launch(grid=(ceil_div(threads, THREADS), 1, 1), block=(THREADS, 1, 1), extras=(n * c,))


KERNEL = Kernel(
    name="maxpool2",
    doc="y = MaxPool(x), 2x2 windows, stride 2, no padding",
    axes=(
        Axis("n", "images"),
        Axis("c", "channels"),
        Axis("h", "height of an image", static=True),
        Axis("w", "width of an image", static=True),
    ),
    inputs=(Tensor("x", (n, c, h, w), "T", "images"),),
    outputs=(Tensor("y", (n, c, h // 2, w // 2), "T", "pooled images"),),
    types=float_types(0.0, 0.0, 0.0),
    requires=(h >= 2) & (w >= 2),
    claims=(IN_FLOATS,),
    variants=(
        Variant(
            "wide",
            launch(PACKS * STORE_BYTES // size_of("T")),
            f"rows are whole 16-byte packs: a thread loads {PACKS} packs of two rows",
            entry="maxpool2",
            when=w.multiple_of(2 * STORE_BYTES // size_of("T")),
        ),
        Variant("narrow", launch(1), "any width: a thread loads one window", entry="maxpool2"),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 2, "w": 2},
        {"n": 1, "c": 6, "h": 24, "w": 24},
        {"n": 3, "c": 5, "h": 7, "w": 9},
        {"n": 33, "c": 50, "h": 24, "w": 24},
        {"n": 257, "c": 3, "h": 5, "w": 64},
    ),
    flops=3 * n * c * (h // 2) * (w // 2),
    source_dir=Path(__file__).parent,
)
