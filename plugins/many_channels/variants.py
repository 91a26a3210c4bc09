"""Declare the variants of the convolutions of many channels, by the sizes of a layer.

Source: the numbers follow direct.cuh, ``Tile`` in operands.cuh, ``Patch`` in patch.cuh, ``Points`` in points.cuh, and
the entries in entries.cuh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, DimLike, axes, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Launch, Variant

n, c, k = axes("n c k")
DIRECT_THREADS, DIRECT_FILTERS = 128, 8
DEPTH, EIGHT = 16, 8
BLOCK = 64  # filters of a tile


@dataclass(frozen=True)
class Work:
    """Hold the sizes of a layer on which its variants depend: pixels of all images, taps of a filter, filters."""

    pixels: Dim
    taps: DimLike
    filters: Dim = k

    @property
    def flops(self) -> Dim:
        """Return the number of operations."""
        return 2 * self.pixels * self.filters * c * self.taps


@dataclass(frozen=True)
class Patches:
    """Hold what the variants by wgmma depend on: ``when`` they can run, the tiles, the stages, and a stage's bytes."""

    when: Condition
    tiles: Dim
    stages: Dim
    stage_bytes: Dim


def _direct(work: Work) -> Variant:
    """Make the variant of kernel.cu."""
    grid = (ceil_div(work.pixels, DIRECT_THREADS) * ceil_div(work.filters, DIRECT_FILTERS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


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
        return ceil_div(self.work.pixels, self.pixels) * ceil_div(self.work.filters, self.filters) * self.splits

    @property
    def idle(self) -> Dim:
        """Return how many more blocks would run in the time of these."""
        return ceil_div(self.blocks, SLOTS) * SLOTS - self.blocks

    def variant(self, when: Condition | None, prefer: Condition | None = None) -> Variant:
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
            when=when,
            prefer=prefer,
        )


@dataclass(frozen=True)
class Patch:
    """Hold a tile of patch.cuh; ``splits`` blocks divide its channels."""

    patches: Patches
    splits: int = 1

    @property
    def blocks(self) -> Dim:
        """Return the number of blocks, if each has one tile."""
        return self.patches.tiles * self.splits

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
            Launch((grid, 1, 1), (384, 1, 1), extras=(n,), shared_bytes=self.patches.stages * self.patches.stage_bytes),
            f"by wgmma, tiles of 256 pixels and {BLOCK} filters, or 128 and {2 * BLOCK}{share}",
            source="wgmma.cu",
            min_sm=90,
            only_sm=True,
            when=self.patches.when & (ceil_div(c, DEPTH) >= self.splits),
            prefer=prefer,
        )


@dataclass(frozen=True)
class Points:
    """Hold a tile of points.cuh: 64 pixels for each of ``groups`` warpgroups that multiply, and up to 128 filters."""

    work: Work
    groups: int

    @property
    def tiles(self) -> Dim:
        """Return the number of tiles."""
        return ceil_div(self.work.pixels, 64 * self.groups) * ceil_div(self.work.filters, self._filters)

    @property
    def _filters(self) -> Dim:
        return BLOCK * minimum(2, ceil_div(self.work.filters, BLOCK))

    def variant(self, when: Condition, prefer: Condition) -> Variant:
        """Make the variant, which can run ``when`` an output reads one pixel."""
        pixels, stages = 64 * self.groups, 6 if self.groups == 2 else 8
        depth = DEPTH * minimum(2, ceil_div(c, DEPTH))
        stage = 4 * depth * (pixels + 4 + self._filters) + 16
        return Variant(
            "points_wgmma" if self.groups == 2 else "few_points_wgmma",
            Launch(
                (minimum(self.tiles, MULTIPROCESSORS), 1, 1),
                (128 * (1 + self.groups), 1, 1),
                extras=(n,),
                shared_bytes=stages * stage,
            ),
            f"by wgmma, tiles of {pixels} pixels and up to {2 * BLOCK} filters",
            source="points.cu",
            min_sm=90,
            only_sm=True,
            when=when,
            prefer=prefer,
        )


def stage_bytes(pixels: Dim, taps: Dim, blocks: DimLike = 1) -> Dim:
    """Return the bytes of a stage: 16 channels of pixels of x and of blocks of filters, both split, and barriers."""
    return 2 * 2 * DEPTH * (pixels + taps * BLOCK * blocks) + 32


AT_ONCE = 3 * MULTIPROCESSORS // 4  # larger clusters do not fill a GPU
# With few tiles and less to do, the smaller tiles of mma are faster: on an H200 up to about two images of ResNet-18.
# With many tiles they are not: one image of 160x160 took 21.6 us in 32 channels by them, one of 256x256 18.8 by wgmma.
LEAST_FLOPS = 6_000_000 * MULTIPROCESSORS
FEW_CHANNELS = 64
# Two blocks find room on a multiprocessor, by their registers.
SLOTS = 2 * MULTIPROCESSORS


def variants(
    work: Work,
    patches: Patches | None = None,
    points: Condition | None = None,
    eights: Condition | None = None,
) -> tuple[Variant, ...]:
    """Return the variants of a layer, in the order of preference; those by wgmma where there are ``patches``.

    ``points``: the condition under which those of points.cuh can run (None: they are left out). ``eights``: that under
    which the channels and filters are multiples of 8, where they need not be.
    """
    large, small = Tile(work, 128, 64, 64), Tile(work, 64, 64, 32)
    by2, by4, by8 = (replace(small, splits=splits) for splits in (2, 4, 8))
    # How often 16 channels of a tap are multiplied; blocks that divide the sums need some each.
    chunks = work.taps * ceil_div(c, DEPTH)
    many = large.idle * 5 <= large.blocks
    few = (large.idle * 5 > large.blocks) & (small.idle > MULTIPROCESSORS)
    # Each tile adds the sums of its eight blocks: with many tiles only long ones are worth it, on an H200 beyond 32.
    long = (chunks >= 8) & (3 * chunks > 2 * minimum(small.blocks, 47))
    return (
        *(() if points is None else _by_points(work, points)),
        *(() if patches is None else _by_wgmma(work, patches)),
        large.variant(eights, many),
        by2.variant(eights, few & (by2.idle <= MULTIPROCESSORS) & (chunks >= 4)),
        by8.variant(eights, few & (by4.idle > MULTIPROCESSORS) & long),
        by4.variant(eights, few & (chunks >= 4)),
        small.variant(eights),
        _direct(work),
    )


def _by_points(work: Work, when: Condition) -> tuple[Variant, ...]:
    few, many = Points(work, 1), Points(work, 2)
    # A tile's sums are of all channels. On an H200 with one tile a block, dividing the sums among blocks, as by4 does,
    # was faster beyond 64 channels for 13 tiles, 200 for 49, and at no number of channels for 98.
    most = maximum(FEW_CHANNELS, few.tiles * few.tiles // 12)
    # Where 8 does not divide the channels or the filters, the others cannot run.
    odd = minimum(1, remainder(c, EIGHT) + remainder(work.filters, EIGHT))
    return (
        few.variant(when, (few.tiles <= MULTIPROCESSORS) & (c * (1 - odd) <= most)),
        many.variant(when, few.tiles > MULTIPROCESSORS),
    )


def _by_wgmma(work: Work, patches: Patches) -> tuple[Variant, ...]:
    whole, halves, quarters, eighths = (Patch(patches, splits) for splits in (1, 2, 4, 8))
    much = work.flops >= LEAST_FLOPS
    return (
        whole.variant((2 * whole.blocks > MULTIPROCESSORS) & (2 * work.flops >= LEAST_FLOPS)),
        eighths.variant(much & eighths.fits),
        quarters.variant(much & quarters.fits),
        halves.variant(much & (2 * whole.blocks <= MULTIPROCESSORS) & (quarters.blocks > AT_ONCE)),
    )
