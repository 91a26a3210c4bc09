"""Declare ``dense_int8``: a dense layer between Q/DQ, on integers."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, ceil_div, minimum
from lenet_trt.kernel import INT32_MAX, MAX_GRID_Y, Attribute, Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.kernel.saturate import scaled
from lenet_trt.pattern import Pattern

from ..dense import declaration
from ..dense.declaration import blocks, inputs, n, outputs

THREADS = 128
FEW_ROWS, FEW_OUTPUTS = 8, 16  # of a block of few_rows
PIECE = 16  # bytes of a row that are loaded at once
# A warp multiplies 64 inputs at once. With fewer than half of them, most of its work is on zeros.
HALF_STEP = 2 * PIECE
# The sum of this number of products of -128 and -128 is the largest that an int holds.
MOST_INPUTS = INT32_MAX // 128**2
# Scales with which sums of random integers fill the range of y, and some of it is cut.
X_STEP, WEIGHT_STEP, Y_STEP = (0.05, 0.1), (0.0005, 0.002), (0.05, 0.1)


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
    """Sum as integers, multiply and add with one rounding, round half to even and cut."""
    sums = x.astype(np.float64) @ w.T.astype(np.float64)
    step = y_scale.astype(np.float32)
    factor = x_scale.astype(np.float32) * w_scale.astype(np.float32) / step
    y = scaled(sums, factor, bias.astype(np.float32) / step)
    return np.clip(np.rint(y), 0 if relu else -128, 127).astype(np.int8)


def dense(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any, y_scale: Any) -> Any:
    return op.QuantizeLinear(_product(op, x, x_scale, w, w_scale, bias), y_scale, 0)


def dense_relu(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any, y_scale: Any) -> Any:
    return op.QuantizeLinear(op.Relu(_product(op, x, x_scale, w, w_scale, bias)), y_scale, 0)


def _product(op: Any, x: Any, x_scale: Any, w: Any, w_scale: Any, bias: Any) -> Any:
    weights = op.DequantizeLinear(w, w_scale, axis=0)
    return op.Gemm(op.DequantizeLinear(x, x_scale), weights, bias, transB=1)


wanted_blocks = MULTIPROCESSORS * (4 - 3 * minimum(inputs // HALF_STEP, 1))


def staged(rows: int, features: int, prefer: Condition) -> Variant:
    """Make the variant whose blocks compute ``rows`` x ``features`` results from tiles in shared memory."""
    return declaration.staged(
        f"staged_{rows}x{features}",
        (rows, features),
        f"{rows} rows x {features} outputs a block, through shared memory",
        inputs.multiple_of(4),
        prefer=prefer,
    )


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
        Tensor("x_scale", (), "float32", "of x", weight=True, positive=X_STEP),
        Tensor("w", (outputs, inputs), "int8", "weights", weight=True),
        Tensor("w_scale", (outputs,), "float32", "of each row of w", weight=True, positive=WEIGHT_STEP),
        Tensor("bias", (outputs,), "float32", "bias", weight=True),
        Tensor("y_scale", (), "float32", "of y", weight=True, positive=Y_STEP),
    ),
    outputs=(Tensor("y", (n, outputs), "int8", "results"),),
    types=(Types("int8", {}, tolerance=0.0),),
    attributes=(Attribute("relu", (0, 1), "whether ReLU follows"),),
    requires=inputs <= MOST_INPUTS,
    variants=(
        # A larger tile reads less, and wants half of its outputs and about a block for each multiprocessor; four where
        # inputs are few.
        staged(128, 128, (n > 64) & (outputs > 64) & (4 * blocks(128, 128) >= 3 * wanted_blocks)),
        staged(64, 64, (n > 32) & (outputs > 32) & (blocks(64, 64) >= wanted_blocks)),
        staged(32, 32, (inputs >= HALF_STEP) & (blocks(FEW_ROWS, FEW_OUTPUTS) > 6 * MULTIPROCESSORS)),
        Variant(
            "few_rows",
            Launch((ceil_div(n, FEW_ROWS), ceil_div(outputs, FEW_OUTPUTS), 1), (THREADS, 1, 1), extras=(n,)),
            "8 rows x 16 outputs a block, whose warps share the inputs",
            when=inputs.multiple_of(PIECE) & (outputs <= MAX_GRID_Y * FEW_OUTPUTS),
            prefer=inputs >= HALF_STEP,
        ),
        Variant(
            "any_size",
            Launch((ceil_div(n * outputs, THREADS), 1, 1), (THREADS, 1, 1), extras=(n,)),
            "a thread an output, four products an instruction",
        ),
    ),
    # With so few products no size that was timed was slower than cuBLAS in fp16, without Q/DQ around it.
    claims=(n * inputs * outputs <= 1 << 24,),
    patterns=(Pattern(dense_relu, {"relu": 1}), Pattern(dense, {"relu": 0})),
    reference=reference,
    examples=(
        {"n": 1, "in": 256, "out": 120},
        {"n": 7, "in": 85, "out": 11},
        {"n": 133, "in": 84, "out": 10},
        {"n": 133, "in": 784, "out": 304},
        {"n": 65, "in": 16, "out": 65},
    ),
    flops=2 * n * inputs * outputs,
    source_dir=Path(__file__).parent,
)
