"""Declare ``linear``: a dense layer over the last axis, with bias and an optional activation, in fp32."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Condition, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Axis, Kernel, Launch, Packing, Tensor, Types, Variant

from ..dense.declaration import inputs, n, outputs
from ..split_floats.packing import join, split
from ..windows.activation import ACTIVATION, ACTIVATIONS
from .pattern import PATTERNS

EIGHT, CHUNK = 8, 32
DIRECT_THREADS = 128
# What tile.cuh says.
STAGES, ROWS, MOST_COLUMNS = 6, 128, 128
across = ceil_div(outputs, MOST_COLUMNS)
columns = maximum(64, ceil_div(ceil_div(outputs, across), 16) * 16)
chunks = inputs // CHUNK
tiles = ceil_div(n, ROWS) * across

X = Tensor("x", (n, inputs), "T", "rows")
BIAS = Tensor("bias", (outputs,), "T", "bias of each output", weight=True)
WEIGHTS = (
    Tensor(
        "weights",
        (chunks, 2, outputs // EIGHT, CHUNK // EIGHT, EIGHT, EIGHT),
        "float16",
        "w, divided by its output's scale, as two fp16 numbers (layer.cuh)",
        weight=True,
    ),
    Tensor("scales", (outputs,), "T", "a power of two for each output", weight=True),
    BIAS,
)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the product with bias, then the activation."""
    return ACTIVATIONS[activation](x @ w.T + bias)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Split each output's weights, divided by a power of two, and lay them out for wgmma."""
    both, scales = split(weights["w"])
    _, count, depth = both.shape
    blocks = both.reshape(2, count // EIGHT, EIGHT, depth // CHUNK, CHUNK // EIGHT, EIGHT).transpose(3, 0, 1, 4, 2, 5)
    return {"weights": np.ascontiguousarray(blocks), "scales": scales, "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it, up to the bits that two fp16 numbers do not have."""
    scales = weights["scales"]
    sums = join(op, weights["weights"], axis=1)
    rows = op.Reshape(op.Transpose(sums, perm=[2, 4, 0, 1, 3, 5]), op.Concat(op.Shape(scales), op.ints(-1), axis=0))
    return {"w": op.Mul(rows, op.Reshape(scales, op.ints(-1, 1))), "bias": weights["bias"]}


PACKING = Packing((Tensor("w", (outputs, inputs), "T", "weights", weight=True), BIAS), pack, unpack)


def by_wgmma(splits: int, prefer: Condition | None = None) -> Variant:
    """Make the variant in which ``splits`` blocks divide the inputs of a tile."""
    divided = splits > 1
    # A block that has all inputs of a tile stays for other tiles.
    grid = tiles * splits if divided else minimum(tiles, MULTIPROCESSORS)
    together = 1 if divided else 2 - remainder(chunks, 2)  # chunks of a stage
    stage = ROWS * (together * CHUNK + 8) * 4 + together * CHUNK * columns * 4
    share = f", {splits} blocks for each" if divided else ""
    return Variant(
        f"by{splits}_wgmma" if divided else "wgmma",
        Launch((grid, 1, 1), (384, 1, 1), extras=(n,), shared_bytes=STAGES // together * (stage + 16)),
        f"by wgmma, tiles of {ROWS} rows and up to {MOST_COLUMNS} outputs{share}",
        source="wgmma.cu",
        min_sm=90,
        only_sm=True,
        when=chunks >= splits,
        prefer=prefer,
    )


# Three products of fp16 pay where tensor cores have many times the rate of the CUDA cores: on Hopper. In engines of
# TensorRT 8.6.0 on an H200, layers of 33 to 67 million operations lost where they had 49 or 128 rows, or 64 inputs;
# those of 58 million and 197 rows won.
MEASURED = ARCHITECTURE.equals(90)
FLOPS = 2 * n * inputs * outputs
ENOUGH = (FLOPS >= 100_000_000, (FLOPS >= 55_000_000) & (n >= 192))
AT_ONCE = 7 * MULTIPROCESSORS // 8  # larger clusters do not fill a GPU
VARIANTS = (
    by_wgmma(8, (8 * tiles <= AT_ONCE) & (chunks >= 8)),
    by_wgmma(4, (4 * tiles <= AT_ONCE) & (chunks >= 4)),
    by_wgmma(2, (2 * tiles <= MULTIPROCESSORS) & (chunks >= 12)),
    by_wgmma(1),
    Variant(
        "direct",
        Launch((ceil_div(n * (outputs // EIGHT), DIRECT_THREADS), 1, 1), (DIRECT_THREADS, 1, 1), extras=(n,)),
        "plain multiply-adds, 8 outputs a thread",
        entry="linear_direct",
    ),
)

KERNEL = Kernel(
    name="linear",
    doc="y = act(Gemm(x, w, bias)) over the last axis, w [out, in], in fp32",
    axes=(
        Axis("n", "rows"),
        Axis("in", "input features", static=True),
        Axis("out", "output features", static=True),
    ),
    inputs=(X, *WEIGHTS),
    outputs=(Tensor("y", (n, outputs), "T", "results"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=(ACTIVATION,),
    requires=inputs.multiple_of(CHUNK) & outputs.multiple_of(EIGHT) & (outputs >= 32),
    packing=PACKING,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "in": 32, "out": 40, "activation": "gelu"},
        {"n": 133, "in": 96, "out": 96, "activation": "none"},
        {"n": 197, "in": 768, "out": 192, "activation": "none"},
        {"n": 130, "in": 160, "out": 264, "activation": "relu"},
        {"n": 4100, "in": 512, "out": 256, "activation": "none"},
        {"n": 6304, "in": 192, "out": 768, "activation": "gelu"},
    ),
    claims=tuple(MEASURED & (inputs >= 64) & (outputs >= 64) & enough for enough in ENOUGH),
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
