"""A kernel that reads one of TensorRT's layouts and writes another."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.pattern import Pattern

n, c, h, w = axes("n c h w")
THREADS = 128


def reference(x: np.ndarray) -> np.ndarray:
    """y in float64."""
    return np.abs(x)


def graph(op: Any, x: Any) -> Any:
    return op.Abs(x)


KERNEL = Kernel(
    name="abs_packed",
    doc="y = Abs(x), in layouts of TensorRT",
    axes=(Axis("n", "images"), Axis("c", "channels"), Axis("h", "height"), Axis("w", "width")),
    inputs=(Tensor("x", (n, c, h, w), "T", "maps", layout="hwc8"),),
    outputs=(Tensor("y", (n, c, h, w), "T", "absolute values", layout="chw32"),),
    types=(Types("fp16", {"T": "float16"}, tolerance=0.0),),
    variants=(
        Variant(
            "plain",
            Launch((ceil_div(32 * n * ceil_div(c, 32) * h * w, THREADS), 1, 1), (THREADS, 1, 1), (n, c, h, w)),
            "a thread a number",
        ),
    ),
    patterns=(Pattern(graph),),
    reference=reference,
    examples=({"n": 1, "c": 1, "h": 1, "w": 1}, {"n": 3, "c": 20, "h": 5, "w": 7}, {"n": 4, "c": 70, "h": 16, "w": 9}),
    flops=n * c * h * w,
    source_dir=Path(__file__).parent,
)
