"""Declare ``dense_bias_relu``: a dense layer with bias and optional ReLU."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import Condition, axes, ceil_div, minimum, size_of
from lenet_trt.kernel import INT32_MAX, Attribute, Axis, Kernel, Launch, Tensor, Types, Variant

from .pattern import PATTERNS

n, inputs, outputs = axes("n in out")
THREADS = (128, 1, 1)
NEVER = n < 0  # until it is measured
MAX_GRID_Y = 65_535
STAGE_BYTES = 128


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, relu: int) -> np.ndarray:
    """Compute the product with bias, then ReLU if the attribute says so."""
    y = x @ w.T + bias
    return np.maximum(y, 0) if relu else y


def tensor_core(name: str, types: str, min_sm: int, rows: int, threads: int, prefer: Condition) -> Variant:
    """Make a tensor-core variant for one 16-bit type; a block computes ``rows`` rows."""
    return Variant(
        name,
        Launch((ceil_div(n, rows), ceil_div(outputs, 128), 1), (threads, 1, 1), extras=(n,)),
        f"tensor cores, {rows} rows a block",
        source="tensor_core.cu",
        entry="dense_bias_relu_tensor" if rows == 16 else f"dense_bias_relu_tensor_rows{rows}",
        min_sm=min_sm,
        types=(types,),
        prefer=prefer,
    )


def staged(rows: int, features: int, threads: int, stages: int, prefer: Condition | None) -> Variant:
    """Make the variant whose blocks compute ``rows`` x ``features`` results from tiles in shared memory."""
    name = f"staged_{rows}x{features}"
    return Variant(
        name,
        Launch(
            (ceil_div(n, rows), ceil_div(outputs, features), 1),
            (threads, 1, 1),
            extras=(n,),
            shared_bytes=stages * (rows + features) * STAGE_BYTES,
        ),
        f"tensor cores, {rows} rows x {features} features a block",
        source="staged.cu",
        min_sm=80,
        when=(inputs * size_of("T")).multiple_of(4),
        prefer=prefer,
    )


def warps(name: str, entry: str, features: int, types: tuple[str, ...] | None, prefer: Condition | None) -> Variant:
    """Make the variant in which a warp computes ``features`` output features of eight rows at a time."""
    return Variant(
        name,
        Launch((ceil_div(outputs, 4 * features), minimum(ceil_div(n, 8), MAX_GRID_Y), 1), THREADS, extras=(n,)),
        f"a warp {features} output feature{'s' if features > 1 else ''}",
        entry=entry,
        types=types,
        prefer=prefer,
    )


KERNEL = Kernel(
    name="dense_bias_relu",
    doc="y = Gemm(x, w, bias) with w [out, in], then ReLU or nothing",
    axes=(
        Axis("n", "rows"),
        Axis("in", "input features", static=True),
        Axis("out", "output features", static=True),
    ),
    inputs=(
        Tensor("x", (n, inputs), "T", "rows"),
        Tensor("w", (outputs, inputs), "T", "weights", weight=True),
        Tensor("bias", (outputs,), "T", "bias", weight=True),
    ),
    outputs=(Tensor("y", (n, outputs), "T", "results"),),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=1e-6),
        Types("fp16", {"T": "float16"}, tolerance=1e-3),
        Types("bf16", {"T": "bfloat16"}, tolerance=8e-3),
    ),
    attributes=(Attribute("relu", (0, 1), "whether ReLU follows"),),
    variants=(
        staged(32, 32, 128, 4, NEVER),
        staged(64, 32, 128, 4, NEVER),
        staged(64, 64, 128, 4, NEVER),
        staged(64, 128, 256, 4, NEVER),
        staged(80, 128, 320, 4, NEVER),
        staged(128, 128, 256, 3, NEVER),
        tensor_core("tensor_core_rows32", "fp16", 75, 32, 128, (n >= 8192) & (inputs >= 128)),
        tensor_core("tensor_core_rows32_bf16", "bf16", 80, 32, 128, (n >= 8192) & (inputs >= 128)),
        tensor_core("tensor_core", "fp16", 75, 16, 256, n > 64),
        tensor_core("tensor_core_bf16", "bf16", 80, 16, 256, n > 64),
        Variant(
            "tile",
            Launch((ceil_div(n, 128), ceil_div(outputs, 32), 1), THREADS, extras=(n,)),
            "register tiles",
            source="tile.cu",
            prefer=(n >= 12_288) & (inputs >= 128),
        ),
        warps("warp", "dense_bias_relu", 1, ("fp16", "bf16"), n <= 64),
        warps("warp_by4", "dense_bias_relu_by4", 4, None, None),
    ),
    patterns=PATTERNS,
    reference=reference,
    # Rows are counted in 32 bits, by a warp to as many beyond the last as a grid takes at once.
    max_elements=INT32_MAX - 8 * MAX_GRID_Y,
    examples=(
        {"n": 1, "in": 256, "out": 120},
        {"n": 7, "in": 120, "out": 84},
        {"n": 33, "in": 85, "out": 11},
        {"n": 133, "in": 84, "out": 10},
        {"n": 12_289, "in": 256, "out": 120},
        {"n": 8195, "in": 256, "out": 120},
        {"n": 515, "in": 85, "out": 131},
    ),
    flops=2 * n * inputs * outputs,
    source_dir=Path(__file__).parent,
)
