"""A kernel with a variant of two launches from two files, which hand over partial results in a workspace."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.pattern import Pattern

n, w = axes("n w")
BLOCK = (128, 1, 1)
CHUNK, PARTIAL_BYTES = 1024, 8
CHUNKS = ceil_div(w, CHUNK)


def reference(x: np.ndarray) -> np.ndarray:
    """y in float64."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def graph(op: Any, x: Any) -> Any:
    return op.Softmax(x, axis=-1)


KERNEL = Kernel(
    name="split_softmax",
    doc="y = Softmax(x) along rows",
    axes=(Axis("n", "rows"), Axis("w", "columns")),
    inputs=(Tensor("x", (n, w), "T", "rows"),),
    outputs=(Tensor("y", (n, w), "T", "results"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=1e-6), Types("fp16", {"T": "float16"}, tolerance=2e-3)),
    variants=(
        Variant(
            "split",
            Launch((n * CHUNKS, 1, 1), BLOCK, extras=(w, CHUNKS), workspace=True),
            "a block a chunk of a row, and again to write",
            then=(Launch((n * CHUNKS, 1, 1), BLOCK, extras=(w, CHUNKS), workspace=True, source="finish.cu"),),
            workspace=PARTIAL_BYTES * n * CHUNKS,
            prefer=w > CHUNK,
        ),
        Variant("row", Launch((n, 1, 1), BLOCK, extras=(w,)), "a block a row"),
    ),
    patterns=(Pattern(graph),),
    reference=reference,
    examples=({"n": 1, "w": 1}, {"n": 3, "w": 1025}, {"n": 1, "w": 5000}, {"n": 64, "w": 300}),
    flops=5 * n * w,
    source_dir=Path(__file__).parent,
)
