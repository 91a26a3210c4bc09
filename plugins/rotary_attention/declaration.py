"""Declare what ``rotary_attention`` and ``normed_rotary_attention`` share; ``one_tensor.cuh`` says where rows lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, maximum, minimum
from lenet_trt.kernel import INT32_MAX, Axis, IntegerAttribute, Kernel, Tensor, Variant

from ..attention.declaration import MOST_DEPTH_MASKED, SCALE, TILE_ROWS, TYPES, attended, claims, d, of_tiles
from ..attention.declaration import variants as variants_of_attention
from ..self_attention.declaration import divided
from ..windows.declaration import IN_GROUPS

n, b, t, g, repeats, mask_heads, mask_rows = axes("n b t g repeats mask_heads mask_rows")
heads = repeats * g
FLOPS = 4 * n * b * heads * t * t * d
# Tokens of a sequence from which on keys that are turned once were faster, on an H200: with heads of fewer than 96
# elements, with larger ones, and with parts for each multiprocessor twice. results/printed/tiles.txt of docs.
TOKENS, TOKENS_OF_WIDE, TOKENS_OF_MANY = 256, 160, 112
INTEGERS = (t, g, b, mask_heads, mask_rows)

INPUTS = (
    Tensor("x", (n, b, t, repeats + 2, g, d), "T", "queries, keys and values of each token"),
    Tensor("cos", (t, d), "T", "cosines of each token's angles; the second half of a row repeats the first one"),
    Tensor("sin", (t, d), "T", "sines of the same"),
    Tensor("mask", (b, mask_heads, mask_rows, t), "T", "what is added to the scores"),
)
ATTRIBUTES = (
    SCALE,
    IntegerAttribute("repeats", 1, 64, (3, 1), "heads of queries that share a head of keys and values"),
)
REQUIRES = (d <= MOST_DEPTH_MASKED) & d.multiple_of(16) & (n * b * heads * t <= INT32_MAX)
REQUIRES &= ((mask_heads - 1) * (heads - mask_heads)).equals(0) & ((mask_rows - 1) * (t - mask_rows)).equals(0)


def rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Turn x [..., t, heads, d] by the angles of its tokens, of which the first half of each row counts."""
    first, second = np.split(x, 2, axis=-1)
    c, s = (each[:, None, : x.shape[-1] // 2] for each in (cos, sin))
    return np.concatenate([first * c - second * s, second * c + first * s], axis=-1)


def attended_after(
    change: Callable[[np.ndarray, str], np.ndarray], x: np.ndarray, mask: np.ndarray, scale: float, repeats: int
) -> np.ndarray:
    """Compute the attention of queries and keys that ``change`` has changed; the second argument says which they are.

    A row whose keys the mask hides all, by -infinity, is of zeros.
    """
    n, b, t, _, g, d = x.shape
    every = x.reshape(n, b, t, (repeats + 2) * g, d)
    q, k, v = np.split(every, [repeats * g, (repeats + 1) * g], axis=-2)
    k, v = (np.repeat(each, repeats, axis=-2) for each in (change(k, "keys"), v))
    return attended(change(q, "queries"), k, v, scale, mask).reshape(n, b, t, repeats, g, d)


def example(n: int, b: int, t: int, g: int, d: int, repeats: int, mask: str = "", **more: Any) -> Mapping[str, Any]:
    """Return sizes; ``mask`` names the axes over which the mask is not the same: heads, queries."""
    return {
        **{"n": n, "b": b, "t": t, "g": g, "d": d, "repeats": repeats},
        "mask_heads": repeats * g if "h" in mask else 1,
        "mask_rows": t if "q" in mask else 1,
        **more,
    }


def variants(kernel: str) -> tuple[Variant, ...]:
    """Make the variants of a kernel, the last one by plain multiply-adds."""
    mask_tiles = b * mask_heads * ceil_div(mask_rows, TILE_ROWS)
    parts = n * b * heads * ceil_div(t, TILE_ROWS)
    many = minimum(t - TOKENS_OF_MANY, parts - 2 * MULTIPROCESSORS)
    long = maximum(t - TOKENS + (TOKENS - TOKENS_OF_WIDE) * minimum(d // 96, 1), many) >= 0
    return (
        divided(kernel, t, n * b * heads, INTEGERS),
        of_tiles(kernel, n * b, t, heads, g, mask_tiles, INTEGERS, TOKENS_OF_MANY, long),
        *variants_of_attention(kernel, n * b, t, INTEGERS, heads=heads),
    )


rotary = partial(
    Kernel,
    axes=(
        Axis("n", "sequences with one mask"),
        Axis("b", "masks of sequences: 1, where all have the same"),
        Axis("t", "tokens of a sequence"),
        Axis("g", "heads of keys and values"),
        Axis("d", "elements of a query, a key and a value in a head", static=True),
        Axis("mask_heads", "heads that the mask has: all, or 1"),
        Axis("mask_rows", "queries that the mask has: all, or 1"),
    ),
    outputs=(Tensor("y", (n, b, t, repeats, g, d), "T", "sums of the values, each times its share"),),
    types=TYPES[1:],
    max_elements=2**40,
    claims=claims(FLOPS, masked=True),
    in_groups=IN_GROUPS,
    flops=FLOPS,
)
