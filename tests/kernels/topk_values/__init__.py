"""A kernel whose output has as many columns as an open integer attribute says, which is a constant of the network."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.pattern import Pattern

n, w, k = axes("n w k")
THREADS = 32


def reference(x: np.ndarray, *, k: int) -> np.ndarray:
    """y in float64; NaN is sorted as larger than any number."""
    return np.sort(x, axis=1)[:, ::-1][:, :k]


def graph(op: Any, x: Any, k: Any) -> Any:
    values, _ = op.TopK(x, k, _outputs=2)
    return values


KERNEL = Kernel(
    name="topk_values",
    doc="y = TopK(x, k) along rows, the values alone",
    axes=(Axis("n", "rows"), Axis("w", "columns")),
    inputs=(Tensor("x", (n, w), "T", "rows"),),
    outputs=(Tensor("y", (n, k), "T", "the largest"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=0.0), Types("fp16", {"T": "float16"}, tolerance=0.0)),
    attributes=(IntegerAttribute("k", 1, 64, (2, 1, 5, 40), "how many"),),
    requires=k <= w,
    variants=(
        Variant("plain", Launch((ceil_div(n, THREADS), 1, 1), (THREADS, 1, 1), extras=(n, w)), "a thread a row"),
    ),
    patterns=(Pattern(graph),),
    reference=reference,
    examples=({"n": 1, "w": 2}, {"n": 7, "w": 33}, {"n": 65, "w": 200}),
    flops=n * w * k,
    source_dir=Path(__file__).parent,
)
