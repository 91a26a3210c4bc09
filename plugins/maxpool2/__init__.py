"""Declare ``maxpool2``: max-pool with 2x2 windows and stride 2."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import DimLike, axes, ceil_div, size_of
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant

from .pattern import PATTERNS

n, c, h, w = axes("n c h w")
THREADS = 256
STORE_BYTES = 8


def reference(x: np.ndarray) -> np.ndarray:
    """Compute the largest element of each window; NaN wins; an odd last row or column is left out."""
    batch, channels, height, width = x.shape
    windows = x[:, :, : height // 2 * 2, : width // 2 * 2].reshape(batch, channels, height // 2, 2, width // 2, 2)
    return windows.max(axis=(3, 5))


def launch(outputs_per_item: DimLike, items: int) -> Launch:
    """Make the launch for kernels in which a thread computes ``items`` items of this many neighbouring outputs."""
    threads = n * c * (h // 2) * (w // 2 // outputs_per_item)
    return Launch(grid=(ceil_div(threads, items * THREADS), 1, 1), block=(THREADS, 1, 1), extras=(n * c,))


def wide(name: str, items: int) -> Variant:
    return Variant(
        "wide" if name == "s1" else f"wide_{name}",
        launch(STORE_BYTES // size_of("T"), items),
        f"rows are whole 16-byte packs: a thread loads {items} packs of two rows",
        entry=f"maxpool2_{name}",
        when=w.multiple_of(2 * STORE_BYTES // size_of("T")),
    )


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
    types=(
        Types("fp32", {"T": "float32"}, tolerance=0.0),
        Types("fp16", {"T": "float16"}, tolerance=0.0),
        Types("bf16", {"T": "bfloat16"}, tolerance=0.0),
    ),
    requires=(h >= 2) & (w >= 2),
    variants=(
        wide("s1", 1),
        wide("s2", 2),
        wide("s4", 4),
        wide("p1", 1),
        wide("p2", 2),
        wide("p4", 4),
        Variant(
            "narrow",
            launch(1, 1),
            "any width: a thread loads one window",
            entry="maxpool2_s1",
        ),
        Variant(
            "narrow_4",
            launch(1, 4),
            "any width: a thread loads four windows",
            entry="maxpool2_s4",
        ),
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
