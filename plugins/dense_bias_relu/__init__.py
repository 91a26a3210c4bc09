"""Dense layer with bias and optional ReLU: the declaration of ``dense_bias_relu``."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import Condition, axes, ceil_div, minimum
from lenet_trt.kernel import Attribute, Axis, Kernel, Launch, Tensor, Types, Variant

from .pattern import PATTERNS

n, inputs, outputs = axes("n in out")
THREADS = (128, 1, 1)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, relu: int) -> np.ndarray:
    """The product with bias, then ReLU if asked for."""
    y = x @ w.T + bias
    return np.maximum(y, 0) if relu else y


def tensor_core(name: str, types: str, min_sm: int) -> Variant:
    """The tensor-core variant for one 16-bit type."""
    return Variant(
        name,
        Launch((ceil_div(n, 16), ceil_div(outputs, 128), 1), THREADS, extras=(n,)),
        "tensor cores, for many rows",
        source="tensor_core.cu",
        entry="dense_bias_relu_tensor",
        min_sm=min_sm,
        types=(types,),
        when=n >= 64,
    )


def warps(name: str, entry: str, features: int, when: Condition | None) -> Variant:
    """The variant in which a warp takes so many output features and eight rows at a time."""
    return Variant(
        name,
        Launch((ceil_div(outputs, 4 * features), minimum(ceil_div(n, 8), 65535), 1), THREADS, extras=(n,)),
        f"a warp {features} output feature{'s' if features > 1 else ''}, for few rows",
        entry=entry,
        when=when,
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
        tensor_core("tensor_core", "fp16", 75),
        tensor_core("tensor_core_bf16", "bf16", 80),
        Variant(
            "tile",
            Launch((ceil_div(n, 128), ceil_div(outputs, 32), 1), THREADS, extras=(n,)),
            "register tiles, for many rows",
            source="tile.cu",
            when=n >= 512,
        ),
        warps("warp_by4", "dense_bias_relu_by4", 4, n >= 16),
        warps("warp", "dense_bias_relu", 1, None),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "in": 256, "out": 120},
        {"n": 7, "in": 120, "out": 84},
        {"n": 33, "in": 85, "out": 11},
        {"n": 133, "in": 84, "out": 10},
        {"n": 1025, "in": 256, "out": 120},
        {"n": 515, "in": 85, "out": 131},
    ),
    flops=2 * n * inputs * outputs,
    source_dir=Path(__file__).parent,
)
