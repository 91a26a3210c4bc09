"""Declare ``softmax``: Softmax over the last axis."""

from pathlib import Path

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, maximum, size_of
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Launch, Tensor, Variant, float_types

from .declaration import MOST_VALUES, PACK, RowVariants, k, softmax_of
from .pattern import PATTERNS

(rows,) = axes("rows")
LANES8_ROWS = 16
MOST_ROWS = INT32_MAX // 8
CLUSTER_BLOCKS, CLUSTER_THREADS = 8, 256
TILE_THREADS, TILE_LANES = 128, 8


VARIANTS = RowVariants("softmax", rows, (rows,))
TILE_ROWS = TILE_THREADS // TILE_LANES * maximum(1, 64 * TILE_LANES // (k * size_of("T")))

LONG_ROWS = k >= 1024

KERNEL = Kernel(
    name="softmax",
    doc="y = Softmax(x) over the last axis",
    axes=(Axis("rows", "rows"), Axis("k", "length of a row", static=True)),
    inputs=(Tensor("x", (rows, k), "T", "rows"),),
    outputs=(Tensor("y", (rows, k), "T", "exponentials that add up to 1 in each row"),),
    types=float_types(),
    variants=(
        Variant(
            "lanes8",
            Launch((ceil_div(rows, LANES8_ROWS), 1, 1), (8 * LANES8_ROWS, 1, 1), (rows,)),
            "8 lanes a row",
            source="lanes8.cu",
            when=k <= 8 * MOST_VALUES,
            prefer=k.multiple_of(4) & (k <= 128),
        ),
        VARIANTS.lanes(16, prefer=k.multiple_of(4)),
        Variant(
            "tile",
            Launch((ceil_div(rows, TILE_ROWS), 1, 1), (TILE_THREADS, 1, 1), (rows,), TILE_ROWS * k * size_of("T")),
            f"rows through shared memory, {TILE_LANES} lanes a row",
            source="tile.cu",
            when=k <= MOST_VALUES * TILE_LANES,
            prefer=k <= 128,
        ),
        VARIANTS.lanes(32, prefer=k * size_of("T") <= 2048),
        Variant(
            "cluster",
            Launch((CLUSTER_BLOCKS * rows, 1, 1), (CLUSTER_THREADS, 1, 1), (rows,)),
            f"a cluster of {CLUSTER_BLOCKS} blocks a row",
            source="cluster.cu",
            min_sm=90,
            when=k + 2 * PACK <= 2 * MOST_VALUES * CLUSTER_BLOCKS * CLUSTER_THREADS,
            # Few rows for the GPU; in fp32 also many, where they are too long for a block.
            prefer=(k >= 8192) & (rows <= MULTIPROCESSORS // 2 + k // 32768 * (size_of("T") // 4) * MOST_ROWS),
        ),
        VARIANTS.row(128, prefer=k <= 2048),
        VARIANTS.row(256),
        VARIANTS.row(1024, prefer=size_of("T").equals(4)),
        VARIANTS.block(),
    ),
    patterns=PATTERNS,
    reference=softmax_of,
    max_elements=2**40,
    requires=rows <= MOST_ROWS,
    claims=(LONG_ROWS,),
    joined_by=frozenset({"MatMul", "Einsum"}),  # attention in one kernel
    examples=(
        {"rows": 1, "k": 1},
        {"rows": 3, "k": 7},
        {"rows": 333, "k": 49},
        {"rows": 333, "k": 64},
        {"rows": 1177, "k": 196},
        {"rows": 77, "k": 197},
        {"rows": 33, "k": 1000},
        {"rows": 33, "k": 1030},
        {"rows": 5, "k": 4096},
        {"rows": 9, "k": 4099},
        {"rows": 3, "k": 50257},
        {"rows": 67, "k": 10007},
        {"rows": 2, "k": 70001},
    ),
    flops=5 * rows * k,
    source_dir=Path(__file__).parent,
)
