"""Declare ``batched_matvec``: MatMul with a column on the right, leading dimensions broadcast."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import as_dim, axes, ceil_div, maximum, product, size_of
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Launch, Tensor, Variant, float_types

from .pattern import PATTERNS

outer, broadcast, inner, rows, k = axes("outer broadcast inner rows k")
THREADS = 256
# A block goes on until all rows are done, so any grid is right; this much of `a` keeps each busy for one round.
BLOCK_BYTES = 16 * 1024
# A block of the bulk copies has BULK_GROUPS groups of lanes, four rows each. It is for streams in which few blocks lie
# across two outer indices.
BULK_THREADS, BULK_GROUPS = 128, 16
BULK_ROWS = 4 * BULK_GROUPS
all_rows = product((outer, broadcast, inner, rows))


def reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute the product."""
    return np.matmul(a, x)


KERNEL = Kernel(
    name="batched_matvec",
    doc="y = MatMul(a, x), x a column, leading dimensions of x broadcast over those of a",
    axes=(
        Axis("outer", "leading dimensions that a and x share"),
        Axis("broadcast", "dimensions over which x is repeated"),
        Axis("inner", "dimensions after those that a and x share"),
        Axis("rows", "rows of a matrix"),
        Axis("k", "length of a row", static=True),
    ),
    inputs=(
        Tensor("a", (outer, broadcast, inner, rows, k), "T", "matrices"),
        Tensor("x", (outer, 1, inner, k, 1), "T", "columns"),
    ),
    outputs=(Tensor("y", (outer, broadcast, inner, rows, 1), "T", "products"),),
    types=float_types(),
    variants=(
        Variant(
            "bulk",
            Launch(
                grid=(ceil_div(all_rows, BULK_ROWS), 1, 1),
                block=(BULK_THREADS, 1, 1),
                extras=(
                    *(outer, broadcast, inner, rows),
                    *(as_dim(INT32_MAX) // maximum(size, 1) for size in (rows, inner, broadcast)),
                ),
            ),
            "a bulk copy a block",
            source="bulk.cu",
            min_sm=90,
            types=("fp16",),
            when=k.equals(64) & as_dim(BULK_GROUPS).multiple_of(maximum(inner * rows, 1)),
            prefer=broadcast * inner * rows >= 16 * BULK_ROWS,
        ),
        Variant(
            "lanes",
            Launch(
                grid=(ceil_div(product((outer, broadcast, inner, rows, k, size_of("T"))), BLOCK_BYTES), 1, 1),
                block=(THREADS, 1, 1),
                extras=(outer, broadcast, inner, rows),
            ),
            "neighbouring lanes share a row",
            entry="batched_matvec",
        ),
    ),
    patterns=PATTERNS,
    reference=reference,
    # Elements are counted in 64 bits, rows in 32.
    max_elements=2**40,
    requires=all_rows <= INT32_MAX,
    examples=(
        {"outer": 1, "broadcast": 1, "inner": 1, "rows": 1, "k": 64},
        {"outer": 3, "broadcast": 5, "inner": 7, "rows": 2, "k": 7},
        {"outer": 1, "broadcast": 3, "inner": 1, "rows": 333, "k": 1},
        {"outer": 2, "broadcast": 50, "inner": 8, "rows": 1, "k": 250},
        {"outer": 5, "broadcast": 2, "inner": 3, "rows": 4, "k": 4096},
        {"outer": 3, "broadcast": 5501, "inner": 2, "rows": 2, "k": 64},
        {"outer": 60, "broadcast": 200, "inner": 8, "rows": 1, "k": 64},
    ),
    flops=2 * product((outer, broadcast, inner, rows, k)),
    source_dir=Path(__file__).parent,
)
