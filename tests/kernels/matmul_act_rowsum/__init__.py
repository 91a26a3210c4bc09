"""A kernel with everything a declaration can have: packing, attributes, two outputs, dynamic shared memory."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Attribute, Axis, Kernel, Launch, Packing, Tensor, Types, Variant

n, c, k = axes("n c k")
ROWS = 2


def reference(x: np.ndarray, w: np.ndarray, *, activation: str) -> tuple[np.ndarray, np.ndarray]:
    """y and s in float64."""
    y = x @ w
    return {"none": y, "relu": np.maximum(y, 0), "negate": -y}[activation], x.sum(axis=1)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Transpose w."""
    return {"wt": np.ascontiguousarray(weights["w"].T)}


KERNEL = Kernel(
    name="matmul_act_rowsum",
    doc="y = act(x @ w), s = ReduceSum(x)",
    axes=(Axis("n", "rows"), Axis("c", "inputs", static=True), Axis("k", "outputs", static=True)),
    inputs=(
        Tensor("x", (n, c), "T", "rows"),
        Tensor("wt", (k, c), "float32", "w, transposed", weight=True),
    ),
    outputs=(Tensor("y", (n, k), "T", "results"), Tensor("s", (n,), "T", "sums")),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=1e-6),
        Types("fp16", {"T": "float16"}, tolerance=1e-3),
        Types("bf16", {"T": "bfloat16"}, tolerance=1e-2),
    ),
    attributes=(Attribute("activation", ("none", "relu", "negate"), "what follows the product"),),
    variants=(
        Variant(
            "shared",
            Launch((ceil_div(n, ROWS), 1, 1), (64, 1, 1), extras=(n, ROWS), shared_bytes=4 * c * k),
            "weights in shared memory",
            min_sm=80,
            types=("fp32", "fp16"),
            when=(n >= 3) & (c * k <= 24 * 1024),
        ),
        Variant("plain", Launch((n, 1, 1), (64, 1, 1), extras=(n,)), "weights from global memory"),
    ),
    packing=Packing(
        plain=(Tensor("w", (c, k), "float32", "weights", weight=True),),
        pack=pack,
        unpack=lambda op, wt: op.Transpose(wt, perm=[1, 0]),
    ),
    reference=reference,
    examples=({"n": 1, "c": 7, "k": 5}, {"n": 5, "c": 3, "k": 130}, {"n": 64, "c": 150, "k": 150}),
    flops=2 * n * c * k,
    source_dir=Path(__file__).parent,
)
