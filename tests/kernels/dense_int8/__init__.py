"""A dense layer between Q/DQ, on integers: what a declaration of a quantized kernel looks like."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Attribute, Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.kernel.saturate import quantize
from lenet_trt.pattern import Pattern

n, inputs, outputs = axes("n in out")
THREADS = 128


def reference(
    x: np.ndarray,
    x_scale: np.ndarray,
    w: np.ndarray,
    w_scale: np.ndarray,
    bias: np.ndarray,
    y_scale: np.ndarray,
    *,
    relu: int,
) -> np.ndarray:
    """Sum as integers, then scale, add and round in float32, in the kernel's order: equal to the last bit."""
    sums = (x.astype(np.int64) @ w.T.astype(np.int64)).astype(np.float32)
    factors = x_scale.astype(np.float32) * w_scale.astype(np.float32)
    y = sums * factors + bias.astype(np.float32)
    return quantize(np.maximum(y, 0) if relu else y, y_scale.astype(np.float32), "int8")


def dense(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any, y_scale: Any) -> Any:
    return op.QuantizeLinear(_product(op, x, x_scale, w, w_scale, bias), y_scale, 0)


def dense_relu(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any, y_scale: Any) -> Any:
    return op.QuantizeLinear(op.Relu(_product(op, x, x_scale, w, w_scale, bias)), y_scale, 0)


def _product(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any) -> Any:
    weights = op.DequantizeLinear(w, w_scale, axis=0)
    return op.Gemm(op.DequantizeLinear(x, x_scale), weights, bias, transB=1)


KERNEL = Kernel(
    name="dense_int8",
    doc="y = Q(act(Gemm(DQ(x), DQ(w), bias))) with w [out, in], in integers",
    axes=(
        Axis("n", "rows"),
        Axis("in", "input features", static=True),
        Axis("out", "output features", static=True),
    ),
    inputs=(
        Tensor("x", (n, inputs), "int8", "rows"),
        Tensor("x_scale", (), "float32", "of x", weight=True, positive=True),
        Tensor("w", (outputs, inputs), "int8", "weights", weight=True),
        Tensor("w_scale", (outputs,), "float32", "of each row of w", weight=True, positive=True),
        Tensor("bias", (outputs,), "float32", "bias", weight=True),
        Tensor("y_scale", (), "float32", "of y", weight=True, positive=True),
    ),
    outputs=(Tensor("y", (n, outputs), "int8", "results"),),
    types=(Types("int8", {}, tolerance=0.0),),
    attributes=(Attribute("relu", (0, 1), "whether ReLU follows"),),
    variants=(
        Variant(
            "dp4a",
            Launch((ceil_div(n * outputs, THREADS), 1, 1), (THREADS, 1, 1), extras=(n,)),
            "a thread an output, four products an instruction",
        ),
    ),
    patterns=(Pattern(dense_relu, {"relu": 1}), Pattern(dense, {"relu": 0})),
    reference=reference,
    examples=({"n": 1, "in": 256, "out": 120}, {"n": 7, "in": 85, "out": 11}, {"n": 133, "in": 84, "out": 10}),
    flops=2 * n * inputs * outputs,
    source_dir=Path(__file__).parent,
)
