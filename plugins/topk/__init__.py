"""Declare ``topk``: the largest elements along the last axis, and their indices."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, axes, ceil_div, minimum
from lenet_trt.kernel import INT32_MAX, Axis, IntegerAttribute, Kernel, Launch, Tensor, Types, Variant

from .pattern import PATTERNS

rows, n, k = axes("rows n k")
THREADS = 512
BLOCKS = 8
MOST = 128
# What pick.cuh and cluster.cu have in shared memory: the pool and digits of a block, of each block of its cluster
# elements that are told, and keys; and barriers.
POOL_BYTES, TOLD, GATHERED, BARRIERS = 24_672 + 128, 128, 258, 32
LANES_THREADS = 256
AT_ONCE = 4  # blocks of a multiprocessor
LONG = 131_072  # eight blocks have enough to do
LANES_LONGEST, LANES_MOST = 1024, 32  # of a row in registers of a warp


def reference(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the k largest elements of each row; NaN is the largest, and of equal elements the first one comes first."""
    rising = np.argsort(x[:, ::-1], axis=-1, kind="stable")
    indices = x.shape[1] - 1 - rising[:, ::-1][:, :k]
    return np.take_along_axis(x, indices, axis=-1), indices


def cluster(name: str, blocks: int, prefer: Condition) -> Variant:
    """Make the variant in which a cluster of ``blocks`` blocks has a row."""
    return Variant(
        name,
        Launch(
            (blocks * rows, 1, 1),
            (THREADS, 1, 1),
            (rows,),
            POOL_BYTES + blocks * (4 * TOLD + 8 * GATHERED + 4) + BARRIERS,
        ),
        f"a cluster of {blocks} blocks a row",
        source="cluster.cu",
        min_sm=90,
        prefer=prefer,
    )


KERNEL = Kernel(
    name="topk",
    doc="values, indices = TopK(x, k) over the last axis, the largest, sorted",
    axes=(Axis("rows", "rows"), Axis("n", "length of a row", static=True)),
    inputs=(Tensor("x", (rows, n), "T", "rows"),),
    outputs=(
        Tensor("values", (rows, k), "T", "the largest elements, falling"),
        Tensor("indices", (rows, k), "int32", "where they are in the row"),
    ),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=0.0),
        Types("fp16", {"T": "float16"}, tolerance=0.0),
        # ONNX has a TopK of bfloat16 from opset 24 on alone.
    ),
    attributes=(IntegerAttribute("k", 1, MOST, (5,), "how many elements of each row"),),
    requires=(k <= n) & (rows <= INT32_MAX // BLOCKS),
    # Many of a short row are a detector's boxes, which TensorRT decodes and sorts in one region (docs/zoo.md). The one
    # largest is a reduction to TensorRT: of a million elements it found it in 13.4 us on an H200, and this in 38.5.
    claims=((k >= 2) & (k <= 32), (k >= 2) & (n >= 4096)),
    variants=(
        Variant(
            "lanes",
            Launch((ceil_div(rows, LANES_THREADS // 32), 1, 1), (LANES_THREADS, 1, 1), (rows,)),
            "a warp a row",
            source="lanes.cu",
            when=(n <= LANES_LONGEST) & (k <= LANES_MOST),
            # Longer rows are better off with a block each, as long as all blocks run at once.
            prefer=(k <= 16) & (rows >= n // 4) & (rows > minimum(n // 512, 1) * AT_ONCE * MULTIPROCESSORS),
        ),
        # Clusters that run all at once. Shorter rows have too little to do for several blocks.
        cluster("cluster4", 4, (n >= 24576) & (n <= LONG) & (rows <= MULTIPROCESSORS // 2)),
        cluster("cluster8", BLOCKS, (n > LONG) & (rows <= MULTIPROCESSORS // 2)),
        Variant("block", Launch((rows, 1, 1), (THREADS, 1, 1), (rows,)), "a block a row"),
    ),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=(
        {"rows": 1, "n": 1, "k": 1},
        {"rows": 3, "n": 7},
        {"rows": 77, "n": 100, "k": 100},
        {"rows": 257, "n": 1000},
        {"rows": 9, "n": 4099, "k": 128},
        {"rows": 3, "n": 50257, "k": 100},
        {"rows": 1, "n": 1000003, "k": 1},
    ),
    flops=rows * n,
    source_dir=Path(__file__).parent,
)
