"""Declare what ``self_attention`` and ``masked_self_attention`` share; ``one_tensor.cuh`` says where rows lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Dim, axes, ceil_div, size_of
from lenet_trt.kernel import INT32_MAX, Axis, IntegerAttribute, Launch, Tensor, Variant

from ..attention.declaration import CLAIMED, attended, d, h, of_tiles
from ..attention.declaration import variants as of_separate_tensors
from ..windows.declaration import IN_FLOATS, rows_in_groups

n, a, r, b, c = axes("n a r b c")
(shift,) = axes("shift")
windows = n * a * b
tokens = r * c
FLOPS = 4 * windows * h * tokens * tokens * d

AXES = (
    Axis("n", "images or sequences"),
    Axis("a", "rows of windows in an image"),
    Axis("r", "rows of tokens in a window, or tokens"),
    Axis("b", "windows in a row; images, where tokens come first"),
    Axis("c", "tokens in a row of a window", static=True),
    Axis("h", "heads"),
    Axis("d", "elements of a query, a key and a value in a head", static=True),
)
X = Tensor("x", (n, a, r, b, c, 3, h, d), "T", "queries, keys and values of each token")
Y = Tensor("y", (n, a, r, b, c, h, d), "T", "sums of the values, each times its share")
SHIFT = IntegerAttribute("shift", 0, 63, (0, 3), "rows and columns by which the windows of an image begin later")
# A shift is less than a window, and the numbers of an image have indexes of 32 bits.
REQUIRES = (windows * h * tokens <= INT32_MAX) & (3 * a * b * tokens * h * d <= INT32_MAX)
REQUIRES &= (shift <= r - 1) & (shift <= c - 1)
# What divided_keys.cuh says: a warp has 32 keys at a time, in a part of shared memory of its own.
WARPS, QUERIES, KEYS_OF_WARP = 8, 16, 32
# Tokens from which on, with a mask, tiles that lie ready were faster, on an H200: results/printed/tiles.txt of docs.
LONG = 512
LEAST = 256  # for that variant: windows of an image have fewer, and there are many of them
# Operations. The smallest in an engine that was faster were those of a Swin-T's last stage for one image, 7 million, in
# fp32. In 16 bits small ones are taken in groups alone.
ENOUGH = 5_000_000
CLAIMS_OF_FLOATS = CLAIMED & IN_FLOATS & (FLOPS >= ENOUGH)
MANY_ROWS = rows_in_groups(windows * tokens, h * d) & d.multiple_of(8) & (d >= 16)
EXAMPLES: tuple[Mapping[str, Any], ...] = (
    {"n": 1, "a": 1, "r": 1, "b": 1, "c": 1, "h": 1, "d": 16},
    {"n": 2, "a": 1, "r": 70, "b": 1, "c": 1, "h": 3, "d": 32},
    {"n": 1, "a": 1, "r": 131, "b": 3, "c": 1, "h": 2, "d": 48, "scale": 0.25},
    {"n": 2, "a": 2, "r": 3, "b": 3, "c": 5, "h": 2, "d": 20, "shift": 2},
    {"n": 2, "a": 3, "r": 7, "b": 2, "c": 7, "h": 3, "d": 32, "shift": 3},
    {"n": 1, "a": 2, "r": 12, "b": 1, "c": 12, "h": 2, "d": 32, "shift": 0},
    {"n": 2, "a": 1, "r": 197, "b": 1, "c": 1, "h": 3, "d": 64},
    {"n": 1, "a": 1, "r": 300, "b": 1, "c": 1, "h": 2, "d": 128},
    # Parts for every multiprocessor; and few, but long sequences.
    {"n": 33, "a": 1, "r": 162, "b": 1, "c": 1, "h": 4, "d": 32},
    {"n": 1, "a": 1, "r": 600, "b": 1, "c": 1, "h": 7, "d": 64},
)


def attended_in_windows(x: np.ndarray, scale: float, shift: int, mask: np.ndarray | None = None) -> np.ndarray:
    """Compute the attention of x [n, a, r, b, c, 3, h, d] in each window; mask [windows, heads, queries, keys]."""
    n, a, r, b, c, _, h, d = x.shape
    rolled = np.roll(x.reshape(n, a * r, b * c, 3, h, d), (-shift, -shift), (1, 2)).reshape(x.shape)
    parted = np.moveaxis(rolled, 3, 2).reshape(n, a * b, r * c, 3, h, d)
    y = attended(parted[..., 0, :, :], parted[..., 1, :, :], parted[..., 2, :, :], scale, mask)
    together = np.moveaxis(y.reshape(n, a, b, r, c, h, d), 2, 3).reshape(n, a * r, b * c, h, d)
    return np.roll(together, (shift, shift), (1, 2)).reshape(n, a, r, b, c, h, d)


def variants(kernel: str, extras: tuple[Dim, ...] = (), *, mask_tiles: Dim | None = None) -> tuple[Variant, ...]:
    """Make the variants of a kernel; ``extras`` are the integers of its launches that come after a, r, b and h.

    ``mask_tiles``: the tiles of queries that its mask has, of all its matrices, if it has one.
    """
    integers = (a, r, b, h, *extras)
    tiles: tuple[Variant, ...] = ()
    if mask_tiles is not None:
        tiles = (of_tiles(kernel, windows, tokens, h, h, mask_tiles, integers, LEAST, tokens >= LONG),)
    return (
        divided(kernel, tokens, windows * h, integers),
        *tiles,
        *of_separate_tensors(kernel, windows, tokens, integers, keys=tokens if mask_tiles is None else None),
    )


def divided(kernel: str, tokens: Dim, heads: Dim, integers: tuple[Dim, ...]) -> Variant:
    """Make the variant of divided_keys.cuh for so many tokens and heads, those of all sequences."""
    return Variant(
        "divided",
        Launch(
            (ceil_div(tokens, QUERIES) * heads, 1, 1),
            (32 * WARPS, 1, 1),
            integers,
            shared_bytes=WARPS * (8 * KEYS_OF_WARP + QUERIES * size_of("T")) * (d + 8),
        ),
        f"tensor cores, {WARPS} warps divide the keys of {QUERIES} queries",
        source="divided.cu",
        entry=f"{kernel}_divided",
        min_sm=80,
        when=d.multiple_of(16) & (d <= 64),
        # Where blocks of 64 queries leave half of the multiprocessors without any, and there are keys for several
        # warps: 9 us instead of 17 for one image of a ViT-Ti on an H100.
        prefer=(2 * ceil_div(tokens, 64) * heads <= MULTIPROCESSORS) & (tokens > 2 * KEYS_OF_WARP),
    )
