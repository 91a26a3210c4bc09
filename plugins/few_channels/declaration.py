"""Declare what ``few_channel_conv`` and ``few_filter_conv`` share; the headers beside this file have their device code.

Source: the numbers follow direct.cuh and ``TensorPlan`` in tensor_core.cuh.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, DimLike, axes, ceil_div, minimum, remainder, size_of
from lenet_trt.kernel import INT32_MAX, Axis, IntegerAttribute, Launch, Tensor, Variant

from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, pad, size, stride, w, windows_of

(k,) = axes("k")
DIRECT_WARPS = 4
DIRECT_ROWS = 8
# Warps of a block, tiles of 8 filters of a block, and blocks a multiprocessor.
SMALL, LARGE = (4, 4, 4), (8, 8, 4)
WARP_PIXELS = 32
CHUNK = 8
# Tiles are counted as an int, by a block up to a grid beyond the last; a grid has fewer blocks than this on any GPU.
MOST_BLOCKS = 1 << 16
MAX_ELEMENTS = INT32_MAX - MOST_BLOCKS
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


direct_groups = 1 + at_least(k, 9) + 2 * at_least(k, 17)
_direct_columns = 16 + 16 * at_least(remainder(out_w - 1, 32), 16)
_direct_rows = DIRECT_ROWS * (32 // _direct_columns) * (DIRECT_WARPS // direct_groups)
# Of an image.
direct_tiles = ceil_div(out_w, _direct_columns) * ceil_div(out_h, _direct_rows)
direct_tile_pixels = _direct_columns * _direct_rows
# 1 where direct's tiles are not almost empty.
tiles_filled = minimum(8 * out_h * out_w // (direct_tiles * direct_tile_pixels), 1)
_runs = ceil_div(out_w, 4) - 1
_runs_across = 4 + 4 * at_least(remainder(_runs, 8), 4)


def tile_rows(warps: int) -> Dim:
    """Return the rows of a tile on tensor cores."""
    return warps * (8 // _runs_across)


def tiles(warps: int) -> Dim:
    """Return the number of tiles of an image on tensor cores."""
    return ceil_div(out_w, 4 * _runs_across) * ceil_div(out_h, tile_rows(warps))


def _block_filters(filter_tiles: int) -> Dim:
    return 8 * minimum(ceil_div(k, 8), filter_tiles)


def tensor_work(kind: tuple[int, int, int]) -> Dim:
    """Return how many pixels times filters of an image are computed on tensor cores, with those that are not there."""
    warps, filter_tiles, _ = kind
    filters = _block_filters(filter_tiles)
    return tiles(warps) * (WARP_PIXELS * warps) * ceil_div(k, filters) * filters


# More small tiles than blocks at once: before, larger ones would only leave multiprocessors without work.
many_tiles = n * tiles(SMALL[0]) > SMALL[2] * MULTIPROCESSORS


def direct() -> Variant:
    """Make the variant of direct.cuh."""
    grid = (n * direct_tiles, ceil_div(k, 8 * direct_groups), 1)
    launch = Launch(grid, (32 * DIRECT_WARPS, 1, 1), extras=(n,))
    return Variant("direct", launch, "plain multiply-adds, a thread 8 rows of up to 8 filters")


def small_tiles(prefer: Condition | None = None) -> Variant:
    """Make the variant on tensor cores for little work."""
    return _tensor("small", "small.cu", *SMALL, prefer)


def large_tiles(prefer: Condition) -> Variant:
    """Make the variant on tensor cores for much work."""
    warps, filter_tiles, blocks = LARGE
    return _tensor("large", "tensor_core.cu", warps, filter_tiles, blocks - 2 * at_least(k, 33), prefer)


def by_wgmma() -> Variant:
    """Make the variant of by_wgmma.cuh. Source: ``Stem`` there.

    On an H200 it was faster with 7x7 filters; with 3x3 ones fetching and writing took longer than the products.
    """
    pairs = ceil_div(size, 2)
    units = (8 + (pairs - 1) * (3 - stride)) * (15 * stride + size)
    shared = 4 * (2 * units * 16 + 32) + 2 * (2 * ceil_div(size * pairs, 2)) * 64 * 16
    wgmma_tiles = n * ceil_div(out_w, 8) * ceil_div(out_h, 16)
    return Variant(
        "wgmma",
        Launch(
            (minimum(wgmma_tiles, MULTIPROCESSORS), ceil_div(k, 64), 1), (384, 1, 1), extras=(n,), shared_bytes=shared
        ),
        "by wgmma, tiles of 128 pixels and 64 filters",
        source="wgmma.cu",
        min_sm=90,
        only_sm=True,
        types=("fp32",),
        prefer=size >= 7,
    )


def _tensor(
    name: str, source: str, warps: int, filter_tiles: int, blocks: DimLike, prefer: Condition | None
) -> Variant:
    is_float = size_of("T") // 4
    filters = _block_filters(filter_tiles)
    chunk = minimum(c, CHUNK)
    row_words = ceil_div(size * size_of("T"), 4)
    steps = ceil_div(chunk * size * row_words, 8)
    columns, rows = 4 * _runs_across, tile_rows(warps)
    floats_2 = is_float * (stride // 2)
    pairs_1 = (1 - is_float) * (2 - stride)
    halves = 2 * (ceil_div(columns + (size + 1) // 2, 4) * 4 + 2)
    across = floats_2 * halves + (1 - floats_2) * (columns + row_words * (1 + pairs_1))
    pitch = ceil_div(across, 4) * 4 + remainder(row_words, 4)
    patch = chunk * ((rows - 1) * stride + size) * pitch * 4
    shared = steps * filters * size_of("T") * 16 + steps * 32 + patch
    return Variant(
        name,
        Launch(
            (minimum(n * tiles(warps), blocks * MULTIPROCESSORS), ceil_div(k, filters), 1),
            (32 * warps, 1, 1),
            extras=(n,),
            shared_bytes=shared,
        ),
        f"on tensor cores, tiles of {warps * WARP_PIXELS} pixels",
        source=source,
        min_sm=80,
        when=shared <= TENSOR_SHARED_LIMIT,
        prefer=prefer,
    )
