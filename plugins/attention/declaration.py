"""Declare what ``attention`` and ``masked_attention`` share; the headers beside this file have their device code."""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import (
    MULTIPROCESSORS,
    Dim,
    axes,
    ceil_div,
    maximum,
    minimum,
    product,
    remainder,
    size_of,
)
from lenet_trt.kernel import Axis, FloatAttribute, Launch, Tensor, Variant, float_types
from lenet_trt.kernel.dims import Condition

from ..linear.declaration import HOPPER
from ..softmax.declaration import softmax_of

m, t, h, d = axes("m t h d")
# What by_wgmma.cuh and by_tensor_cores.cuh say.
MOST_DEPTH, MOST_DEPTH_MASKED = 160, 128
ROWS_OF_WARP = 16
KEYS_AT_ONCE = 64 - 32 * minimum(d // 112, 1)
THREADS = 128
# What by_wgmma.cuh says.
STAGES, KEYS_OF_STAGE, WARPGROUP = 5, 64, 128
SHARED_LIMIT = 227 * 1024 - 16 * (STAGES + 1)  # of a block of Hopper, without the barriers
TILE_ROWS = 128  # what arranged.cuh says
# Where these were faster on an H200: results/printed/attention_half.txt of docs.
QUERIES_OF_FEW, QUERIES_OF_LONG, QUERIES_OF_EACH, KEYS_OF_WIDE = 128, 512, 160, 128

AXES = (
    Axis("m", "queries of an image or a sequence"),
    Axis("t", "keys"),
    Axis("h", "heads"),
    Axis("d", "elements of a query, a key and a value in a head", static=True),
)
TYPES = float_types(fp32=3e-6)
SCALE = FloatAttribute("scale", (0.125,), "multiplies the scores")
REQUIRES = t >= 1
# Products on tensor cores pay where these have many times the rate of the CUDA cores: on Hopper.
ON_TENSOR_CORES = d.multiple_of(16) & (d <= MOST_DEPTH_MASKED)
BY_WGMMA = d.multiple_of(8) & (d > 16)  # in 16 bits, without a mask
CLAIMED = HOPPER & ON_TENSOR_CORES
ENOUGH = 100_000_000  # operations


def many(queries: Dim) -> Condition:
    """Return the sizes at which 128 queries a block were faster than 64 by tensor.cu, on an H200.

    Floats are split half as often so. In 16 bits nothing is split: heads of more than 32 elements favour 64 queries.
    """
    floats = size_of("T") // 4  # 1, or 0 in 16 bits
    long = minimum(queries - 384, 32 - d + 32 * floats)
    wide = minimum(d - 65, floats - 1)
    return (queries > 64) & (maximum(long, wide) >= 0)


def tensors(*images: Dim) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and the outputs; the product of ``images`` is the number of images or sequences."""
    return (
        Tensor("q", (*images, m, h, d), "T", "queries"),
        Tensor("k", (*images, t, h, d), "T", "keys"),
        Tensor("v", (*images, t, h, d), "T", "values"),
    ), (Tensor("y", (*images, m, h, d), "T", "sums of the values, each times its share"),)


def flops(*images: Dim) -> Dim:
    """Return the operations of both products."""
    return 4 * product((*images, h, m, t, d))


def claims(operations: Dim, *, masked: bool) -> tuple[Condition, ...]:
    """Return the sizes at which a kernel of that many operations replaces nodes where it is not named."""
    claimed = (CLAIMED,) if masked else (CLAIMED, HOPPER & BY_WGMMA & (size_of("T") <= 2))
    return tuple(each & (operations >= ENOUGH) for each in claimed)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray | None = None) -> np.ndarray:
    """Compute the attention of q [..., m, h, d] to k and v [..., t, h, d], with a mask for scores [..., h, m, t].

    A row without a key, all of whose masked scores are -infinity, is of zeros.
    """
    q, k, v = (np.moveaxis(each, -2, -3) for each in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2))
    if mask is None:
        shares = softmax_of(scores)
    else:
        scores = scores + mask
        keyed = ~np.isneginf(scores).all(axis=-1, keepdims=True)
        shares = np.where(keyed, softmax_of(np.where(keyed, scores, 0.0)), 0.0)
    return np.moveaxis(shares @ v, -3, -2)


def variants(
    kernel: str, images: Dim, queries: Dim, integers: tuple[Dim, ...], *, heads: Dim = h, keys: Dim | None = None
) -> tuple[Variant, ...]:
    """Make the variants of a kernel for so many queries of each head of an image; ``integers``: of its launches.

    ``keys``: those of a head, where there is no mask.
    """
    return (
        *(() if keys is None else _by_wgmma(kernel, images, queries, keys, integers)),
        *(
            Variant(
                f"tensor{rows}",
                Launch(
                    (ceil_div(queries, rows) * images * heads, 1, 1),
                    (32 * rows // ROWS_OF_WARP, 1, 1),
                    integers,
                    shared_bytes=(8 * KEYS_AT_ONCE + rows * size_of("T")) * (d + 8),
                ),
                f"tensor cores, {rows} queries a block",
                source="tensor.cu",
                entry=f"{kernel}_tensor",
                min_sm=80,
                when=ON_TENSOR_CORES,
                prefer=prefer,
            )
            for rows, prefer in ((128, many(queries)), (64, None))
        ),
        Variant(
            "rows",
            Launch((ceil_div(images * heads * queries, THREADS // 32), 1, 1), (THREADS, 1, 1), (images, *integers)),
            "plain multiply-adds, a warp a row",
            entry=f"{kernel}_rows",
        ),
    )


def of_tiles(
    kernel: str,
    sequences: Dim,
    tokens: Dim,
    heads: Dim,
    groups: Dim,
    mask_tiles: Dim,
    integers: tuple[Dim, ...],
    least: int,
    prefer: Condition,
) -> Variant:
    """Make the variant of arrange.cuh and by_arranged_tiles.cuh for masked sequences of so many tokens.

    A token has ``heads`` of queries, ``groups`` of keys and as many of values. ``mask_tiles``: the tiles of queries in
    all matrices of the mask. Fewer than ``least`` tokens are not for it, and need no workspace.
    """
    tiles = ceil_div(tokens, TILE_ROWS)
    rows = sequences * (heads + 2 * groups) * tiles
    tile_bytes = 2 * TILE_ROWS * d
    return Variant(
        "tiles",
        Launch((rows + mask_tiles * tiles, 1, 1), (256, 1, 1), (sequences, *integers), workspace=True),
        f"wgmma, {TILE_ROWS} queries a block, tiles of a first launch; no hidden ones",
        source="arrange.cu",
        entry=f"{kernel}_arrange",
        min_sm=90,
        only_sm=True,
        types=("fp16", "bf16"),
        when=d.multiple_of(32) & (tokens >= least),
        prefer=prefer,
        then=(
            Launch(
                (minimum(sequences * heads * tiles, MULTIPROCESSORS), 1, 1),
                (3 * WARPGROUP, 1, 1),
                (sequences, *integers),
                shared_bytes=STAGES * (tile_bytes + 20) + 2 * tile_bytes + 64,
                workspace=True,
                source="wgmma.cu",
                entry=f"{kernel}_wgmma",
            ),
        ),
        # The tiles; what each tile of the mask does; the next part; the largest number of each tile.
        workspace=(rows * (tile_bytes + 4) + 16 * mask_tiles * tiles + 16) * minimum(tokens // least, 1),
    )


def _by_wgmma(kernel: str, images: Dim, queries: Dim, keys: Dim, integers: tuple[Dim, ...]) -> tuple[Variant, ...]:
    """Make the variants of by_wgmma.cuh: with four warpgroups that multiply, or with two or three of more registers.

    They have no mask. A part is a head and up to ``rows`` of its queries.
    """
    padded = ceil_div(d, 16) * 16
    row = 2 * (padded + padded // 8)  # bytes
    stage = 2 * KEYS_OF_STAGE * row

    def parts(rows: int) -> Dim:
        return ceil_div(queries, rows) * images * h

    def rounds(rows: int) -> Dim:
        return ceil_div(parts(rows), MULTIPROCESSORS)

    def shared_bytes(rows: int) -> Dim:
        stages = minimum(STAGES, (SHARED_LIMIT - 2 * rows * row) // stage)
        return (stage + 16) * stages + 2 * rows * row + 16

    enough = (2 * parts(256) > MULTIPROCESSORS) & (parts(256) * queries >= QUERIES_OF_EACH * MULTIPROCESSORS)
    # A block of 192 queries took up to 1.3 times as long as one of 128.
    fewer = 5 * rounds(192) <= 4 * rounds(128)
    # With few keys and queries in wide heads tensor.cu was faster; it has not all heads.
    long, full = queries // QUERIES_OF_LONG, minimum(queries // QUERIES_OF_FEW, parts(128) // MULTIPROCESSORS)
    wide = minimum(d // 65, maximum(keys // KEYS_OF_WIDE, full))
    alone = remainder(d, 16) + d // (MOST_DEPTH_MASKED + 1)
    return tuple(
        Variant(
            f"wgmma{rows}",
            Launch(
                (minimum(parts(rows), MULTIPROCESSORS), 1, 1),
                (2 * rows + WARPGROUP, 1, 1),
                (images, *integers),
                shared_bytes=shared_bytes(rows),
            ),
            f"wgmma, {rows} queries a block, and a warpgroup that loads",
            source="wgmma.cu",
            entry=f"{kernel}_wgmma",
            min_sm=90,
            only_sm=True,
            types=("fp16", "bf16"),
            when=BY_WGMMA & depths,
            prefer=prefer,
        )
        for rows, depths, prefer in (
            (256, d <= 64, (queries > QUERIES_OF_FEW) & enough),
            (192, (d > 64) & (d <= MOST_DEPTH_MASKED), fewer),
            (128, d <= MOST_DEPTH, maximum(long, maximum(wide, alone)) >= 1),
        )
    )
