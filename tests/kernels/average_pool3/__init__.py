"""A kernel whose output sizes and launch depend on integer attributes, which the pattern takes from lists."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.pattern import Pattern

n, c, h, w = axes("n c h w")
pad, stride = axes("pad stride")
out_h, out_w = (h + 2 * pad - 3) // stride + 1, (w + 2 * pad - 3) // stride + 1
THREADS = 128


def reference(x: np.ndarray, *, pad: int, stride: int) -> np.ndarray:
    """y in float64."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows[:, :, ::stride, ::stride].mean(axis=(4, 5))


def graph(op: Any, x: Any, pad: Any, stride: Any) -> Any:
    return op.AveragePool(
        x, kernel_shape=[3, 3], pads=[pad, pad, pad, pad], strides=[stride, stride], count_include_pad=1
    )


KERNEL = Kernel(
    name="average_pool3",
    doc="y = AveragePool(x, 3x3, count_include_pad)",
    axes=(Axis("n", "images"), Axis("c", "channels"), Axis("h", "height"), Axis("w", "width")),
    inputs=(Tensor("x", (n, c, h, w), "T", "maps"),),
    outputs=(Tensor("y", (n, c, out_h, out_w), "T", "means"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=1e-6), Types("fp16", {"T": "float16"}, tolerance=1e-3)),
    attributes=(
        IntegerAttribute("pad", 0, 2, (1, 0, 2), "zeros on each side"),
        IntegerAttribute("stride", 1, 1000, (1, 2, 7), "from window to window"),
    ),
    requires=(h + 2 * pad >= 3) & (w + 2 * pad >= 3),
    variants=(
        Variant(
            "plain",
            Launch((ceil_div(n * c * out_h * out_w, THREADS), 1, 1), (THREADS, 1, 1), (n * c, h, w, out_h, out_w)),
            "a thread an output",
        ),
    ),
    patterns=(Pattern(graph),),
    reference=reference,
    examples=({"n": 1, "c": 1, "h": 1, "w": 2}, {"n": 3, "c": 2, "h": 9, "w": 8}, {"n": 32, "c": 5, "h": 16, "w": 31}),
    flops=9 * n * c * out_h * out_w,
    source_dir=Path(__file__).parent,
)
