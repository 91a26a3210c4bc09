"""Declare ``scale_add_softmax``: Softmax of scaled scores to which a mask is added, as in attention."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes, ceil_div, product, size_of
from lenet_trt.kernel import INT32_MAX, Axis, FloatAttribute, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.kernel.dims import Condition

from .pattern import PATTERNS

outer, repeat, inner, k = axes("outer repeat inner k")
rows = product((outer, repeat, inner))
EXTRAS = (rows, repeat, inner)
PACK = 16 // size_of("T")  # elements
LANES_ROWS = 8
MOST_VALUES = 32  # of a row, that a thread holds in registers
BLOCK_THREADS = 512


def reference(x: np.ndarray, mask: np.ndarray, scale: float) -> np.ndarray:
    """Compute exp(x * scale + mask) over its sum in each row."""
    scores = x * scale + mask
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def lanes(count: int, prefer: Condition | None = None) -> Variant:
    """Declare the variant in which ``count`` lanes share a row."""
    return Variant(
        f"lanes{count}",
        Launch((ceil_div(rows, LANES_ROWS), 1, 1), (count * LANES_ROWS, 1, 1), EXTRAS),
        f"{count} lanes a row",
        source="lanes.cu",
        entry="scale_add_softmax_lanes",
        when=k <= MOST_VALUES * count,
        prefer=prefer,
    )


def row(threads: int, prefer: Condition | None = None) -> Variant:
    """Declare the variant in which a block has a row in registers."""
    return Variant(
        f"row{threads}",
        Launch((rows, 1, 1), (threads, 1, 1), EXTRAS),
        f"a block of {threads} threads a row",
        source="row.cu",
        entry="scale_add_softmax_row",
        when=k + 2 * PACK <= MOST_VALUES * threads,
        prefer=prefer,
    )


KERNEL = Kernel(
    name="scale_add_softmax",
    doc="y = Softmax(x * scale + mask) over the last axis, the mask repeated",
    axes=(
        Axis("outer", "leading dimensions that x and mask share"),
        Axis("repeat", "dimensions over which the mask is repeated"),
        Axis("inner", "dimensions after those, that x and mask share"),
        Axis("k", "length of a row", static=True),
    ),
    inputs=(
        Tensor("x", (outer, repeat, inner, k), "T", "scores"),
        Tensor("mask", (outer, 1, inner, k), "T", "what is added to them"),
    ),
    outputs=(Tensor("y", (outer, repeat, inner, k), "T", "exponentials that add up to 1 in each row"),),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=1e-6),
        Types("fp16", {"T": "float16"}, tolerance=1e-3),
        Types("bf16", {"T": "bfloat16"}, tolerance=8e-3),
    ),
    attributes=(FloatAttribute("scale", (0.125,), "multiplies the scores"),),
    variants=(
        lanes(16, prefer=k.multiple_of(4)),
        lanes(32, prefer=k * size_of("T") <= 2048),
        row(128, prefer=k <= 2048),
        row(256),
        row(1024),
        Variant(
            "block",
            Launch((rows, 1, 1), (BLOCK_THREADS, 1, 1), EXTRAS),
            "a block a row of any length, which it reads twice",
        ),
    ),
    patterns=PATTERNS,
    by_name=True,
    reference=reference,
    max_elements=2**40,
    requires=(rows <= INT32_MAX) & (repeat * inner <= INT32_MAX),
    examples=(
        {"outer": 1, "repeat": 1, "inner": 1, "k": 1},
        {"outer": 3, "repeat": 5, "inner": 7, "k": 7},
        {"outer": 3, "repeat": 5, "inner": 7, "k": 7, "scale": 1.0},
        {"outer": 1, "repeat": 6, "inner": 49, "k": 49},
        {"outer": 3, "repeat": 100, "inner": 1, "k": 196},
        {"outer": 1, "repeat": 33, "inner": 5, "k": 1000},
        {"outer": 3, "repeat": 2, "inner": 5, "k": 1030},
        {"outer": 1, "repeat": 2, "inner": 5, "k": 4099},
        {"outer": 1, "repeat": 3, "inner": 1, "k": 10007},
        {"outer": 1, "repeat": 2, "inner": 1, "k": 50257},
    ),
    flops=7 * rows * k,
    source_dir=Path(__file__).parent,
)
