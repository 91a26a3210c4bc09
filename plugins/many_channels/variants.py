"""Declare the variants of the convolutions of many channels, by the sizes of a layer.

Source: the numbers follow direct.cuh, ``Tile`` in operands.cuh, ``Patch`` in patch.cuh, and the entries in entries.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, DimLike, axes, ceil_div, minimum
from lenet_trt.kernel import Launch, Variant

n, c, k = axes("n c k")
DIRECT_THREADS, DIRECT_FILTERS = 128, 8
DEPTH, EIGHT = 16, 8
BLOCK = 64  # filters of a tile


def _direct(pixels: Dim) -> Variant:
    """Make the variant of kernel.cu."""
    grid = (ceil_div(pixels, DIRECT_THREADS) * (k // DIRECT_FILTERS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


@dataclass(frozen=True)
class Work:
    """Hold the sizes of a layer on which its variants depend: pixels of y of all images, and taps of a filter.

    For the variants by wgmma, where ``by_wgmma`` holds: the tiles, the stages and the bytes of shared memory of one.
    """

    pixels: Dim
    taps: Dim
    by_wgmma: Condition
    tiles: Dim
    stages: Dim
    stage_bytes: Dim

    @property
    def flops(self) -> Dim:
        """Return the number of operations."""
        return 2 * self.pixels * k * c * self.taps


@dataclass(frozen=True)
class Tile:
    """Hold a tile of pixels and filters; ``splits`` blocks divide its sums."""

    work: Work
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
        return ceil_div(self.work.pixels, self.pixels) * ceil_div(k, self.filters) * self.splits

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


@dataclass(frozen=True)
class Patch:
    """Hold a tile of patch.cuh; ``splits`` blocks divide its channels."""

    work: Work
    splits: int = 1

    @property
    def blocks(self) -> Dim:
        """Return the number of blocks, if each has one tile."""
        return self.work.tiles * self.splits

    @property
    def fits(self) -> Condition:
        """Return whether clusters of four blocks and more all run at once."""
        return self.blocks <= AT_ONCE

    def variant(self, prefer: Condition) -> Variant:
        """Make the variant."""
        divided = self.splits > 1
        # A block that has all channels of a tile stays for other tiles.
        grid = self.blocks if divided else minimum(self.blocks, MULTIPROCESSORS)
        share = f", {self.splits} blocks for each" if divided else ""
        return Variant(
            f"by{self.splits}_wgmma" if divided else "wgmma",
            Launch((grid, 1, 1), (384, 1, 1), extras=(n,), shared_bytes=self.work.stages * self.work.stage_bytes),
            f"by wgmma, tiles of 256 pixels and {BLOCK} filters, or 128 and {2 * BLOCK}{share}",
            source="wgmma.cu",
            min_sm=90,
            only_sm=True,
            when=self.work.by_wgmma & (ceil_div(c, DEPTH) >= self.splits),
            prefer=prefer,
        )


def stage_bytes(pixels: Dim, taps: Dim, blocks: DimLike = 1) -> Dim:
    """Return the bytes of a stage: 16 channels of pixels of x and of blocks of filters, both split, and barriers."""
    return 2 * 2 * DEPTH * (pixels + taps * BLOCK * blocks) + 32


AT_ONCE = 3 * MULTIPROCESSORS // 4  # larger clusters do not fill a GPU
# With few tiles and less to do, the smaller tiles of mma are faster: on an H200 up to about two images of ResNet-18.
# With many tiles they are not: one image of 160x160 took 21.6 us in 32 channels by them, one of 256x256 18.8 by wgmma.
LEAST_FLOPS = 6_000_000 * MULTIPROCESSORS
# Two blocks find room on a multiprocessor, by their registers.
SLOTS = 2 * MULTIPROCESSORS


def variants(work: Work) -> tuple[Variant, ...]:
    """Return the variants of a layer, in the order of preference."""
    whole, halves, quarters, eighths = (Patch(work, splits) for splits in (1, 2, 4, 8))
    large, small = Tile(work, 128, 64, 64), Tile(work, 64, 64, 32)
    by2, by4, by8 = (replace(small, splits=splits) for splits in (2, 4, 8))
    much = work.flops >= LEAST_FLOPS
    # How often 16 channels of a tap are multiplied; blocks that divide the sums need some each.
    chunks = work.taps * ceil_div(c, DEPTH)
    many = large.idle * 5 <= large.blocks
    few = (large.idle * 5 > large.blocks) & (small.idle > MULTIPROCESSORS)
    return (
        whole.variant((2 * whole.blocks > MULTIPROCESSORS) & (2 * work.flops >= LEAST_FLOPS)),
        eighths.variant(much & eighths.fits),
        quarters.variant(much & quarters.fits),
        halves.variant(much & (2 * whole.blocks <= MULTIPROCESSORS) & (quarters.blocks > AT_ONCE)),
        large.variant(many),
        by2.variant(few & (by2.idle <= MULTIPROCESSORS) & (chunks >= 4)),
        by8.variant(few & (by4.idle > MULTIPROCESSORS) & (chunks >= 32)),
        by4.variant(few & (chunks >= 4)),
        small.variant(),
        _direct(work.pixels),
    )
