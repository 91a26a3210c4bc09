"""Declare the sizes of ``conv7x7_pool3_half``, and how its filters are laid out.

Source: the numbers follow layer.cuh, kernel.cu and strip.cuh in this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import Attribute, Axis, Launch, Packing, Tensor, Types, Variant, float_types

from ..few_channels.declaration import reference as convolution
from ..windows.declaration import IMAGE, c, h, n, w, windows_of

(k,) = axes("k")
SIZE, STRIDE, PAD = 7, 2, 3
POOL_SIZE, POOL_STRIDE, POOL_PAD = 3, 2, 1
MOST_CHANNELS = 3
EIGHT, BLOCK = 8, 64
DIRECT_THREADS, WGMMA_THREADS = 128, 384
# What a block's shared memory has: rows of x a stage, columns of a row, stages, bytes of a stage's barriers.
STAGE_ROWS, LINE_COLUMNS, STAGES, BARRIER_BYTES = 4, 240, 4, 16
POOLED_COLUMNS = 56  # of a strip

AXES = (Axis("n", "images"), Axis("c", "channels of x", static=True), *IMAGE, Axis("k", "filters", static=True))
out_h, out_w = ceil_div(h, STRIDE), ceil_div(w, STRIDE)
pooled_h, pooled_w = ceil_div(out_h, POOL_STRIDE), ceil_div(out_w, POOL_STRIDE)
blocks = ceil_div(k, BLOCK)
X = Tensor("x", (n, c, h, w), "TX", "images, rounded to T")
W = Tensor("w", (k, c, SIZE, SIZE), "T", "filters", weight=True)
FILTERS = Tensor("filters", (blocks, c, EIGHT, BLOCK, EIGHT), "T", "w, laid out for wgmma (layer.cuh)", weight=True)
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
OUTPUTS = (Tensor("y", (n, k, pooled_h, pooled_w), "T", "pooled feature maps", layout="hwc8"),)
TYPES = tuple(
    Types(types.name + suffix, {"TX": of_x or types.variables["T"], **types.variables}, types.tolerance)
    for suffix, of_x in (("", None), ("_x_fp32", "float32"))
    for types in float_types()[1:]
)
# Those of which a larger input gives no smaller output: the largest is taken first.
RISING = ("none", "relu", "relu6")
ATTRIBUTES = (Attribute("activation", RISING, "what follows the convolution"),)
REQUIRES = (c <= MOST_CHANNELS) & w.multiple_of(EIGHT) & k.multiple_of(EIGHT)
FLOPS = 2 * n * k * out_h * out_w * c * SIZE * SIZE


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution, the activation, and the largest of each 3x3 window; NaN wins, padding never."""
    y = convolution(x, weights, bias, activation=activation, size=SIZE, stride=STRIDE, pad=PAD)
    return np.asarray(windows_of(y, POOL_SIZE, POOL_STRIDE, POOL_PAD, -np.inf).max(axis=(4, 5)))


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the filters out for wgmma, filled up with zeros."""
    channels = weights["w"].shape[1]
    whole = np.pad(weights["w"], ((0, -len(weights["w"]) % BLOCK), (0, 0), (0, 1), (1, 0)))
    parts = whole.reshape(-1, 2, 4, 4, 2, channels, EIGHT, EIGHT)  # filter = 32 i + 8 t + 2 j + e
    packed = parts.transpose(0, 5, 6, 1, 3, 2, 4, 7).reshape(-1, channels, EIGHT, BLOCK, EIGHT)
    return {"filters": np.ascontiguousarray(packed), "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it. All layers of a model have them, so the shapes tell c and k."""
    parts = op.Reshape(weights["filters"], op.ints(0, 0, 0, 2, 4, 4, 2, EIGHT))
    ordered = op.Transpose(parts, perm=[0, 3, 5, 4, 6, 1, 2, 7])
    channels = op.Slice(op.Shape(weights["filters"]), op.ints(1), op.ints(2))
    rows = op.Reshape(ordered, op.Concat(op.ints(-1), channels, op.ints(EIGHT, EIGHT), axis=0))
    ends = op.Concat(op.Shape(weights["bias"]), op.ints(SIZE, EIGHT), axis=0)
    return {"w": op.Slice(rows, op.ints(0, 0, 1), ends, op.ints(0, 2, 3)), "bias": weights["bias"]}


PACKING = Packing((W, BIAS), pack, unpack)

_strips = ceil_div(pooled_w, POOLED_COLUMNS) * blocks
_rows = n * pooled_h
SHARED_BYTES = STAGES * (STAGE_ROWS * c * LINE_COLUMNS * size_of("TX") + BARRIER_BYTES) + 2 * EIGHT * BLOCK * EIGHT * c
VARIANTS = (
    Variant(
        "wgmma",
        Launch(
            (minimum(_rows, maximum(MULTIPROCESSORS // _strips, 1)), _strips, 1),
            (WGMMA_THREADS, 1, 1),
            extras=(n,),
            shared_bytes=SHARED_BYTES,
        ),
        "by wgmma, strips of 56 pooled columns and 64 filters",
        source="wgmma.cu",
        min_sm=90,
        only_sm=True,
    ),
    Variant(
        "direct",
        Launch((ceil_div(_rows * pooled_w * (k // EIGHT), DIRECT_THREADS), 1, 1), (DIRECT_THREADS, 1, 1), extras=(n,)),
        "plain multiply-adds, 8 filters a thread",
    ),
)
# Where it was the faster one in TensorRT 8.6.0 on Hopper (docs/kernels/conv7x7_pool3_half.md).
CLAIMS = (ARCHITECTURE.equals(90) & (pooled_w >= 28),)
