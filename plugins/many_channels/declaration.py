"""Declare what the convolutions of many channels share; the headers beside this file have their device code.

Source: the numbers follow ``Tile`` in operands.cuh, ``Patch`` in patch.cuh, and the entries in entries.cuh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Condition, Dim, axes, ceil_div, minimum
from lenet_trt.kernel import Axis, IntegerAttribute, Launch, Packing, Tensor, Types, Variant

from ..split_floats.packing import join, split
from ..windows.activation import ACTIVATION
from ..windows.declaration import FITS, IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, pad, size, stride, w

(k,) = axes("k")
LEAST = 16
DIRECT_THREADS = 128
DIRECT_FILTERS = 8
DEPTH, EIGHT = 16, 8
BLOCK = 64  # filters of a tile

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images")
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
WEIGHTS = (
    Tensor(
        "filters",
        (ceil_div(k, BLOCK), c // EIGHT, size, size, 2, BLOCK, EIGHT),
        "float16",
        "w, divided by its filter's scale, as two fp16 numbers (layer.cuh)",
        weight=True,
    ),
    Tensor("scales", (k,), "T", "a power of two for each filter", weight=True),
    BIAS,
)
OUTPUTS = (Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),)
TYPES = (Types("fp32", {"T": "float32"}, tolerance=3e-6),)
ATTRIBUTES = (ACTIVATION, IntegerAttribute("size", 1, 7, (3,), "rows and columns of a filter"), STRIDE, PAD)
REQUIRES = FITS & (c >= LEAST) & (k >= LEAST) & c.multiple_of(8) & k.multiple_of(8)
# Three products of fp16 pay where tensor cores have many times the rate of the CUDA cores. On Hopper it was measured;
# on GeForce, whose tensor cores add floats at half their rate, it is not to be expected.
MEASURED = ARCHITECTURE.equals(90)
FLOPS = 2 * n * k * out_h * out_w * c * size * size
pixels = n * out_h * out_w


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Divide each filter by the power of two that brings it below 2, and split it into hi + lo / 2048 for the lanes."""
    both, scales = split(weights["w"])
    both = np.pad(both, ((0, 0), (0, -len(scales) % BLOCK), (0, 0), (0, 0), (0, 0)))
    _, _, channels, *taps = both.shape
    filters = both.reshape(2, -1, BLOCK, channels // EIGHT, EIGHT, *taps).transpose(1, 3, 5, 6, 0, 2, 4)
    return {"filters": np.ascontiguousarray(filters), "scales": scales, "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it, up to the bits that two fp16 numbers do not have."""
    sums = join(op, weights["filters"], axis=4)
    # Blocks and eights are joined: [size, size, c, k], and more filters than there are.
    channels = op.Reshape(op.Transpose(sums, perm=[2, 3, 0, 5, 4, 1, 6]), op.ints(0, 0, 0, 0, -1))
    filters = op.Reshape(op.Transpose(channels, perm=[0, 1, 4, 2, 3]), op.ints(0, 0, 0, -1))
    scales = weights["scales"]
    w = op.Mul(op.Slice(filters, op.ints(0), op.Shape(scales), op.ints(3)), scales)
    return {"w": op.Transpose(w, perm=[3, 2, 0, 1]), "bias": weights["bias"]}


PACKING = Packing((Tensor("w", (k, c, size, size), "T", "filters", weight=True), BIAS), pack, unpack)


def _direct() -> Variant:
    """Make the variant of kernel.cu."""
    grid = (ceil_div(pixels, DIRECT_THREADS) * (k // DIRECT_FILTERS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


@dataclass(frozen=True)
class Tile:
    """Hold a tile of pixels and filters; ``splits`` blocks divide its sums."""

    pixels: int
    filters: int
    warp_pixels: int
    splits: int = 1

    @property
    def name(self) -> str:
        """Return the variant's name."""
        return f"by{self.splits}" if self.splits > 1 else f"tile_{self.pixels}x{self.filters}"

    @property
    def blocks(self) -> Dim:
        """Return the number of blocks."""
        return ceil_div(pixels, self.pixels) * ceil_div(k, self.filters) * self.splits

    @property
    def idle(self) -> Dim:
        """Return how many more blocks would run in the time of these."""
        return ceil_div(self.blocks, SLOTS) * SLOTS - self.blocks

    def variant(self, prefer: Condition | None = None) -> Variant:
        """Make the variant."""
        operands, sums = 2 * DEPTH * (self.pixels + self.filters), self.filters * (self.pixels + 4)
        share = f", {self.splits} blocks for each" if self.splits > 1 else ""
        return Variant(
            self.name,
            Launch(
                (self.blocks, 1, 1),
                (self.pixels // self.warp_pixels * self.filters, 1, 1),
                extras=(n,),
                shared_bytes=4 * (max(operands, sums) + self.pixels),
            ),
            f"on tensor cores, tiles of {self.pixels} pixels and {self.filters} filters{share}",
            source="tensor_core.cu",
            min_sm=90 if self.splits > 1 else 80,
            prefer=prefer,
        )


# What by_wgmma.cuh is written for.
BY_WGMMA = size.equals(3) & (stride <= 2) & pad.equals(1)


@dataclass(frozen=True)
class Patch:
    """Hold a tile of patch.cuh; ``splits`` blocks divide its channels."""

    splits: int = 1

    @property
    def blocks(self) -> Dim:
        """Return the number of blocks, if each has one tile."""
        return _tiles * self.splits

    @property
    def fits(self) -> Condition:
        """Return whether clusters of four blocks and more all run at once."""
        return self.blocks <= AT_ONCE

    def variant(self, prefer: Condition) -> Variant:
        """Make the variant."""
        divided = self.splits > 1
        border = (stride * 8 * _across + 2) * (stride * (_rows - 1) + 3)
        stage = 2 * 2 * DEPTH * (border + stride - 1 + 9 * BLOCK * _blocks)
        # A block that has all channels of a tile stays for other tiles.
        grid = self.blocks if divided else minimum(self.blocks, MULTIPROCESSORS)
        share = f", {self.splits} blocks for each" if divided else ""
        return Variant(
            f"by{self.splits}_wgmma" if divided else "wgmma",
            Launch((grid, 1, 1), (384, 1, 1), extras=(n,), shared_bytes=_stages * (stage + 32)),
            f"by wgmma, tiles of 256 pixels and {BLOCK} filters, or 128 and {2 * BLOCK}{share}",
            source="wgmma.cu",
            min_sm=90,
            only_sm=True,
            when=BY_WGMMA & (ceil_div(c, DEPTH) >= self.splits),
            prefer=prefer,
        )


AT_ONCE = 3 * MULTIPROCESSORS // 4  # larger clusters do not fill a GPU
# A tile of y is 16 columns of 16 rows, or 8 of 32 where images have no more columns; at stride 2 it is 8 columns of 16
# rows, and has two blocks of filters. Between the rows of two images are some that neither has.
_blocks, _stages = stride, 4 - stride
_across = 1 + minimum(1, (out_w - 1) // 8) // _blocks
_rows = 32 // (_across * _blocks)
_image_rows = h // stride + 1
_tiles = (
    ceil_div(n * _image_rows - (_image_rows - out_h), _rows)
    * ceil_div(out_w, 8 * _across)
    * ceil_div(k, BLOCK * _blocks)
)
WHOLE, HALVES, QUARTERS, EIGHTHS = (Patch(splits) for splits in (1, 2, 4, 8))
# With few tiles and less to do, the smaller tiles of mma are faster: on an H200 up to about two images of ResNet-18.
# With many tiles they are not: one image of 160x160 took 21.6 us in 32 channels by them, one of 256x256 18.8 by wgmma.
LEAST_FLOPS = 6_000_000 * MULTIPROCESSORS
_much = FLOPS >= LEAST_FLOPS
# Two blocks find room on a multiprocessor, by their registers.
SLOTS = 2 * MULTIPROCESSORS
LARGE, SMALL = Tile(128, 64, 64), Tile(64, 64, 32)
BY2, BY4, BY8 = (replace(SMALL, splits=splits) for splits in (2, 4, 8))
# How often 16 channels of a tap are multiplied; blocks that divide the sums need some each.
_chunks = size * size * ceil_div(c, DEPTH)
_many = LARGE.idle * 5 <= LARGE.blocks
_few = (LARGE.idle * 5 > LARGE.blocks) & (SMALL.idle > MULTIPROCESSORS)
VARIANTS = (
    WHOLE.variant((2 * WHOLE.blocks > MULTIPROCESSORS) & (2 * FLOPS >= LEAST_FLOPS)),
    EIGHTHS.variant(_much & EIGHTHS.fits),
    QUARTERS.variant(_much & QUARTERS.fits),
    HALVES.variant(_much & (2 * WHOLE.blocks <= MULTIPROCESSORS) & (QUARTERS.blocks > AT_ONCE)),
    LARGE.variant(_many),
    BY2.variant(_few & (BY2.idle <= MULTIPROCESSORS) & (_chunks >= 4)),
    BY8.variant(_few & (BY4.idle > MULTIPROCESSORS) & (_chunks >= 32)),
    BY4.variant(_few & (_chunks >= 4)),
    SMALL.variant(),
    _direct(),
)
