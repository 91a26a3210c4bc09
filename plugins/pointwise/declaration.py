"""Declare what the pointwise convolutions share; the headers beside this file have their device code.

Source: the numbers follow ``Tile`` in tensor_core.cuh and ``Image`` in image.cuh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, axes, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Axis, Launch, Packing, Tensor, Variant, float_types

from ..few_channels.declaration import reference as convolution
from ..windows.activation import ACTIVATION
from ..windows.declaration import IMAGE, c, h, n, w

(k,) = axes("k")
DEPTH, BLOCK, LANES = 16, 16, 32  # channels and filters of a product, and lanes that share its weights
WARP_PIXELS = 32
STAGES = 4  # of a warp
DIRECT_THREADS, DIRECT_FILTERS = 128, 8
PIXELS = n * h * w
FLOPS = 2 * PIXELS * k * c
# Whose planes, of 16 channels, are copied in pieces of 16 bytes.
FEW_PIXELS = (h * w <= 64) & c.multiple_of(8) & k.multiple_of(8)

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images")
OTHER = Tensor("other", (n, k, h, w), "T", "what is added")
W = Tensor("w", (k, c, 1, 1), "T", "filters", weight=True)
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
WEIGHTS = (
    Tensor(
        "weights",
        (ceil_div(k, BLOCK), ceil_div(c, DEPTH), LANES, BLOCK * DEPTH // LANES),
        "T",
        "w, laid out for the lanes (layer.cuh)",
        weight=True,
    ),
    BIAS,
)
OUTPUTS = (Tensor("y", (n, k, h, w), "T", "feature maps"),)
TYPES = float_types()[1:]
ATTRIBUTES = (ACTIVATION,)


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution, then the activation."""
    return convolution(x, weights, bias, activation=activation, size=1, stride=1, pad=0)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the weights out for the lanes, filled up with zeros."""
    w = weights["w"][:, :, 0, 0]
    filters, channels = w.shape
    w = np.pad(w, ((0, -filters % BLOCK), (0, -channels % DEPTH)))
    # [block of filters, half of it, filter g, step, half of it, four channels of it, lane t]
    parts = w.reshape(len(w) // BLOCK, 2, 8, w.shape[1] // DEPTH, 2, 2, 4).transpose(0, 3, 2, 6, 4, 1, 5)
    return {"weights": np.ascontiguousarray(parts.reshape(*parts.shape[:2], LANES, -1)), "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    parts = op.Reshape(weights["weights"], op.ints(0, 0, 8, 4, 2, 2, 2))
    filters_first = op.Transpose(parts, perm=[0, 5, 2, 1, 4, 6, 3])
    blocks = op.Reshape(filters_first, op.ints(0, 2 * 8, -1))  # [block of filters, filter, channel]
    rows = op.Reshape(blocks, op.Concat(op.ints(-1), op.Slice(op.Shape(blocks), op.ints(2), op.ints(3)), axis=0))
    channels = op.Slice(op.Shape("x"), op.ints(1), op.ints(2))
    ends = op.Concat(op.Shape(weights["bias"]), channels, axis=0)
    w = op.Reshape(op.Slice(rows, op.ints(0, 0), ends, op.ints(0, 1)), op.ints(0, 0, 1, 1))
    return {"w": w, "bias": weights["bias"]}


PACKING = Packing((W, BIAS), pack, unpack)

_blocks = ceil_div(k, BLOCK)
_pixel_tiles, _steps = ceil_div(PIXELS, WARP_PIXELS), ceil_div(c, DEPTH)


def filter_tiles(blocks: int) -> Dim:
    """Return the number of tiles of up to 16 ``blocks`` filters each."""
    return ceil_div(_blocks, blocks)


@dataclass(frozen=True)
class Tile:
    """Hold a tile of tensor_core.cuh: up to 16 ``blocks`` filters, 32 ``across`` pixels, ``deep`` warps for each."""

    blocks: int
    across: int
    deep: int

    @property
    def count(self) -> Dim:
        """Return the number of tiles of 32 pixels."""
        return _pixel_tiles * filter_tiles(self.blocks)

    def variant(self, prefer: Condition | None = None) -> Variant:
        """Make the variant."""
        tiles = filter_tiles(self.blocks)
        sums = self.across * self.deep * LANES * 8 * 4 * 2 * ceil_div(_blocks, tiles)
        share = f", {self.deep} warps for each" if self.deep > 1 else ""
        return Variant(
            f"tile_{BLOCK * self.blocks}x{WARP_PIXELS * self.across}" + (f"_by{self.deep}" if self.deep > 1 else ""),
            Launch(
                (ceil_div(PIXELS, WARP_PIXELS * self.across) * tiles, 1, 1),
                (LANES * self.across * self.deep, 1, 1),
                extras=(n,),
                shared_bytes=sums if self.deep > 1 else 0,
            ),
            f"on tensor cores, {WARP_PIXELS} pixels and up to {BLOCK * self.blocks} filters a warp{share}",
            source="tensor_core.cu",
            min_sm=80,
            prefer=prefer,
        )


def image(blocks: int, deep: int, prefer: Condition | None = None) -> Variant:
    """Make a variant of image.cuh: up to 16 ``blocks`` filters at all pixels of an image, by ``deep`` warps."""
    tiles = filter_tiles(blocks)
    ring = deep * minimum(ceil_div(_steps, deep), STAGES) * DEPTH * h * w * 2
    eights = ceil_div(h * w, 8)
    sums = deep * BLOCK * ceil_div(_blocks, tiles) * (eights + 1 - remainder(eights, 2)) * 8 * 4
    return Variant(
        f"image_{BLOCK * blocks}_by{deep}",
        Launch((n * tiles, 1, 1), (LANES * deep, 1, 1), extras=(n,), shared_bytes=maximum(ring, sums)),
        f"on tensor cores, an image and up to {BLOCK * blocks} filters a block, {deep} warps for each",
        source="image.cu",
        min_sm=80,
        when=FEW_PIXELS,
        prefer=prefer,
    )


def direct() -> Variant:
    """Make the variant of direct.cuh."""
    grid = (ceil_div(PIXELS, DIRECT_THREADS) * ceil_div(k, DIRECT_FILTERS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


WIDE, NARROW = Tile(4, 4, 1), Tile(2, 4, 1)
BY2, BY4, NARROW_BY4, SMALL_BY8 = Tile(4, 2, 2), Tile(4, 1, 4), Tile(2, 1, 4), Tile(1, 1, 8)
# Conditions under which variants were the fastest on an H100: docs/kernels/pointwise_conv.md. Where tiles are few,
# warps divide the channels, and with the fewest a warp has the fewest filters.
VARIANTS = (
    SMALL_BY8.variant((SMALL_BY8.count <= 3 * MULTIPROCESSORS) & (_steps >= 3)),
    image(2, 8, n * filter_tiles(4) <= MULTIPROCESSORS),
    image(4, 4),
    NARROW_BY4.variant((NARROW_BY4.count <= 6 * MULTIPROCESSORS) & (_steps <= 8)),
    BY4.variant((BY4.count <= 4 * MULTIPROCESSORS) & (_steps >= 8)),
    BY2.variant((BY2.count <= 8 * MULTIPROCESSORS) & (_steps >= 12)),
    WIDE.variant((_blocks >= 4) & (maximum(WIDE.count // (36 * MULTIPROCESSORS), _steps // 16) >= 1)),
    NARROW.variant(),
    direct(),
)
EXAMPLES = tuple(
    {"n": images, "c": channels, "h": height, "w": width, "k": filters, "activation": activation}
    for images, channels, height, width, filters, activation in (
        (1, 1, 1, 1, 1, "none"),
        (3, 24, 7, 7, 40, "relu"),
        (2, 29, 9, 7, 58, "relu"),
        (2, 40, 6, 11, 24, "silu"),
        (1, 160, 3, 3, 88, "gelu"),
        (5, 48, 14, 14, 136, "relu6"),
        (3, 116, 14, 14, 116, "hardswish"),
        (33, 280, 7, 7, 128, "none"),
        (33, 64, 7, 7, 320, "silu"),
        (5, 64, 28, 28, 64, "none"),
        (5, 144, 28, 28, 64, "none"),
        (9, 16, 56, 56, 24, "relu"),
        (6, 192, 56, 56, 64, "none"),
        (11, 256, 56, 56, 64, "relu"),
    )
)
