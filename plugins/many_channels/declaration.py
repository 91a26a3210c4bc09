"""Declare what the convolutions of many channels share; the headers beside this file have their device code.

Source: the numbers follow ``Tile`` in tensor_core.cuh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, axes, ceil_div, minimum, remainder
from lenet_trt.kernel import Axis, IntegerAttribute, Launch, Packing, Tensor, Types, Variant

from ..windows.activation import ACTIVATION
from ..windows.declaration import FITS, IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, size, w

(k,) = axes("k")
LEAST = 16
DIRECT_THREADS = 128
DIRECT_FILTERS = 8
STAGES = 4
LARGE, MIDDLE, SMALL = (128, 128), (128, 64), (64, 64)

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images")
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
WEIGHTS = (Tensor("filters", (size, size, c, k), "T", "w, its filters last", weight=True), BIAS)
OUTPUTS = (Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),)
TYPES = (Types("fp32", {"T": "float32"}, tolerance=3e-6),)
ATTRIBUTES = (ACTIVATION, IntegerAttribute("size", 1, 7, (3,), "rows and columns of a filter"), STRIDE, PAD)
REQUIRES = FITS & (c >= LEAST) & (k >= LEAST) & c.multiple_of(8) & k.multiple_of(8)
FLOPS = 2 * n * k * out_h * out_w * c * size * size
pixels = n * out_h * out_w


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Order the filters by tap, channel and filter."""
    return {"filters": np.ascontiguousarray(weights["w"].transpose(2, 3, 1, 0)), "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    return {"w": op.Transpose(weights["filters"], perm=[3, 2, 0, 1]), "bias": weights["bias"]}


PACKING = Packing((Tensor("w", (k, c, size, size), "T", "filters", weight=True), BIAS), pack, unpack)


def _direct() -> Variant:
    """Make the variant of kernel.cu."""
    grid = (ceil_div(pixels, DIRECT_THREADS) * (k // DIRECT_FILTERS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


def _tiles(tile: tuple[int, int]) -> Dim:
    """Return the number of tiles of so many pixels and filters, which is the number of blocks."""
    return ceil_div(pixels, tile[0]) * ceil_div(k, tile[1])


def _fill_the_gpu(tile: tuple[int, int]) -> Condition:
    """Return whether each multiprocessor has such a tile."""
    return _tiles(tile) >= MULTIPROCESSORS


def _on_tensor_cores(tile: tuple[int, int], prefer: Condition | None = None) -> Variant:
    """Make the variant of tensor_core.cu whose blocks compute a tile of pixels and filters."""
    depth = 16 - 8 * minimum(remainder(c, 16), 1)
    warp_pixels = 64 if tile == LARGE else 32
    return Variant(
        f"tile_{tile[0]}x{tile[1]}",
        Launch(
            (_tiles(tile), 1, 1),
            (32 * (tile[0] // warp_pixels) * (tile[1] // 32), 1, 1),
            extras=(n,),
            shared_bytes=STAGES * depth * (tile[0] + 8 + tile[1] + 8) * 4,
        ),
        f"on tensor cores, tiles of {tile[0]} pixels and {tile[1]} filters",
        source="tensor_core.cu",
        min_sm=80,
        prefer=prefer,
    )


# No more filters that are not there than in tiles half as wide.
_large_is_full = 2 * ceil_div(k, LARGE[1]) <= ceil_div(k, MIDDLE[1])
VARIANTS = (
    _on_tensor_cores(LARGE, prefer=_large_is_full & _fill_the_gpu(LARGE)),
    _on_tensor_cores(MIDDLE, prefer=_fill_the_gpu(MIDDLE)),
    _on_tensor_cores(SMALL),
    _direct(),
)
