"""Declare what the convolutions of many channels share; the headers beside this file have their device code.

Source: the numbers follow ``Tile`` in operands.cuh, and the entries in entries.cuh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, axes, ceil_div
from lenet_trt.kernel import Axis, IntegerAttribute, Launch, Packing, Tensor, Types, Variant

from ..windows.activation import ACTIVATION
from ..windows.declaration import FITS, IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, size, w

(k,) = axes("k")
LEAST = 16
DIRECT_THREADS = 128
DIRECT_FILTERS = 8
DEPTH = 16
MAX_SCALE = 126

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images")
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
WEIGHTS = (
    Tensor("filters", (size, size, c, k), "T", "w, its filters last, each divided by its scale", weight=True),
    Tensor("scales", (k,), "T", "a power of two for each filter", weight=True),
    BIAS,
)
OUTPUTS = (Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),)
TYPES = (Types("fp32", {"T": "float32"}, tolerance=3e-6),)
ATTRIBUTES = (ACTIVATION, IntegerAttribute("size", 1, 7, (3,), "rows and columns of a filter"), STRIDE, PAD)
REQUIRES = FITS & (c >= LEAST) & (k >= LEAST) & c.multiple_of(8) & k.multiple_of(8)
FLOPS = 2 * n * k * out_h * out_w * c * size * size
pixels = n * out_h * out_w


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Order the filters by tap, channel and filter, and divide each by the power of two that brings it below 2."""
    w = weights["w"]
    most = np.max(np.abs(w), axis=(1, 2, 3), initial=0.0, where=np.isfinite(w))
    exponents = np.clip(np.frexp(most)[1] - 1, -MAX_SCALE, MAX_SCALE)
    filters = np.ldexp(w.transpose(2, 3, 1, 0), -exponents)
    scales = np.ldexp(np.ones(len(w), w.dtype), exponents)
    return {"filters": np.ascontiguousarray(filters), "scales": scales, "bias": weights["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    w = op.Transpose(op.Mul(weights["filters"], weights["scales"]), perm=[3, 2, 0, 1])
    return {"w": w, "bias": weights["bias"]}


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


# Two blocks find room on a multiprocessor, by their registers.
SLOTS = 2 * MULTIPROCESSORS
LARGE, SMALL = Tile(128, 64, 64), Tile(64, 64, 32)
BY2, BY4, BY8 = (replace(SMALL, splits=splits) for splits in (2, 4, 8))
# How often 16 channels of a tap are multiplied; blocks that divide the sums need some each.
_chunks = size * size * ceil_div(c, DEPTH)
_many = LARGE.idle * 5 <= LARGE.blocks
_few = (LARGE.idle * 5 > LARGE.blocks) & (SMALL.idle > MULTIPROCESSORS)
VARIANTS = (
    LARGE.variant(_many),
    BY2.variant(_few & (BY2.idle <= MULTIPROCESSORS) & (_chunks >= 4)),
    BY8.variant(_few & (BY4.idle > MULTIPROCESSORS) & (_chunks >= 32)),
    BY4.variant(_few & (_chunks >= 4)),
    SMALL.variant(),
    _direct(),
)
