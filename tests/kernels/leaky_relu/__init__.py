"""A kernel with a float attribute that the pattern takes from the network."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, FloatAttribute, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.pattern import Pattern

n, w = axes("n w")
THREADS = 128


def reference(x: np.ndarray, *, alpha: float) -> np.ndarray:
    """y in float64."""
    return np.where(x < 0, alpha * x, x)


def graph(op: Any, x: Any, alpha: Any) -> Any:
    return op.LeakyRelu(x, alpha=alpha)


KERNEL = Kernel(
    name="leaky_relu",
    doc="y = LeakyRelu(x)",
    axes=(Axis("n", "rows"), Axis("w", "columns")),
    inputs=(Tensor("x", (n, w), "T", "rows"),),
    outputs=(Tensor("y", (n, w), "T", "activated"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=1e-6), Types("fp16", {"T": "float16"}, tolerance=1e-3)),
    attributes=(FloatAttribute("alpha", (0.01, 0.2, -1.5, 0.0), "slope of negative numbers", most=1.0),),
    variants=(
        Variant(
            "plain",
            Launch((ceil_div(n * w, THREADS), 1, 1), (THREADS, 1, 1), extras=(n * w,)),
            "a thread an element",
        ),
    ),
    patterns=(Pattern(graph),),
    reference=reference,
    examples=({"n": 1, "w": 5}, {"n": 7, "w": 33}, {"n": 64, "w": 100}),
    flops=n * w,
    source_dir=Path(__file__).parent,
)
