"""Declare what ``few_channel_conv`` and ``few_filter_conv`` share; the headers beside this file have their device code.

Source: the numbers follow direct.cuh and ``TensorPlan`` in tensor_core.cuh.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, DimLike, axes, ceil_div, minimum, size_of
from lenet_trt.kernel import Axis, IntegerAttribute, Launch, Tensor, Variant

from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, pad, size, stride, w, windows_of

(k,) = axes("k")
DIRECT_WARPS = 4
DIRECT_ROWS = 8
CHUNK = 8
# Up to here small tiles were faster on an H200.
FEW_PIXELS = 1 << 16
# What every architecture from sm_80 on has.
TENSOR_SHARED_LIMIT = 99 * 1024

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
INPUTS = (
    Tensor("x", (n, c, h, w), "T", "images"),
    Tensor("w", (k, c, size, size), "T", "filters", weight=True),
    Tensor("bias", (k,), "T", "bias of each filter", weight=True),
)
OUTPUTS = (Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),)
ATTRIBUTES = (ACTIVATION, IntegerAttribute("size", 2, 7, (3,), "rows and columns of a filter"), STRIDE, PAD)
# Unpadded 5x5 filters at stride 1 have kernels of their own (conv5x5/).
NOT_CONV5X5 = (size - 5) * (size - 5) + (stride - 1) + pad >= 1
FLOPS = 2 * n * k * out_h * out_w * c * size * size


def reference(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str, size: int, stride: int, pad: int
) -> np.ndarray:
    """Compute the convolution, then the activation."""
    windows = windows_of(x, size, stride, pad, 0.0)
    sums = np.moveaxis(np.tensordot(windows, weights, axes=([1, 4, 5], [1, 2, 3])), -1, 1)
    return ACTIVATIONS[activation](sums + bias[:, None, None])


def at_least(value: Dim, least: int) -> Dim:
    """Return 1 where a size is at least so large, else 0."""
    return minimum(value // least, 1)


many_pixels = at_least(n * out_h * out_w, FEW_PIXELS + 1)


def direct() -> Variant:
    """Make the variant of direct.cuh."""
    groups = 1 + at_least(k, 9) + 2 * at_least(k, 17)
    columns = 16 + 16 * at_least((out_w - 1) - (out_w - 1) // 32 * 32, 16)
    rows = DIRECT_ROWS * (32 // columns) * (DIRECT_WARPS // groups)
    tiles = ceil_div(out_w, columns) * ceil_div(out_h, rows)
    launch = Launch((n * tiles, ceil_div(k, 8 * groups), 1), (32 * DIRECT_WARPS, 1, 1), extras=(n,))
    return Variant("direct", launch, "plain multiply-adds, a thread 8 rows of up to 8 filters")


def small_tiles(prefer: Condition) -> Variant:
    """Make the variant on tensor cores for little work."""
    return _tensor("small", "small.cu", 4, 4, 4, prefer)


def large_tiles(prefer: Condition | None = None) -> Variant:
    """Make the variant on tensor cores for much work."""
    return _tensor("large", "tensor_core.cu", 8, 8, 4 - 2 * at_least(k, 33), prefer)


def _tensor(
    name: str, source: str, warps: int, filter_tiles: int, blocks: DimLike, prefer: Condition | None
) -> Variant:
    is_float = size_of("T") // 4
    tiles = minimum(ceil_div(k, 8), filter_tiles)
    chunk = minimum(c, CHUNK)
    row_words = ceil_div(size * size_of("T"), 4)
    steps = ceil_div(chunk * size * row_words, 8)
    runs = ceil_div(out_w, 4) - 1
    runs_across = 4 + 4 * at_least(runs - runs // 8 * 8, 4)
    columns, rows = 4 * runs_across, warps * (8 // runs_across)
    floats_2 = is_float * (stride // 2)
    pairs_1 = (1 - is_float) * (2 - stride)
    halves = 2 * (ceil_div(columns + (size + 1) // 2, 4) * 4 + 2)
    across = floats_2 * halves + (1 - floats_2) * (columns + row_words * (1 + pairs_1))
    pitch = ceil_div(across, 4) * 4 + (row_words - row_words // 4 * 4)
    patch = chunk * ((rows - 1) * stride + size) * pitch * 4
    shared = steps * tiles * 32 * size_of("T") * 4 + steps * 32 + patch
    units = n * ceil_div(out_w, columns) * ceil_div(out_h, rows)
    return Variant(
        name,
        Launch(
            (minimum(units, blocks * MULTIPROCESSORS), ceil_div(k, 8 * tiles), 1),
            (32 * warps, 1, 1),
            extras=(n,),
            shared_bytes=shared,
        ),
        f"on tensor cores, tiles of {warps * 32} pixels",
        source=source,
        min_sm=80,
        when=shared <= TENSOR_SHARED_LIMIT,
        prefer=prefer,
    )
