"""Declare the small kernels that measure a GPU's ceilings, as all kernels are declared, with many block counts each.

They are no plugins: no network needs them, so no registry lists them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Attribute, Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.kernel.dims import MULTIPROCESSORS, DimLike, axes, ceil_div

n, warps, rows = axes("n warps rows")

# The blocks per multiprocessor that are tried, in addition to one block per tile.
BLOCKS = (2, 4, 8, 16, 32)
THREADS = 256
COLUMNS = 4 * THREADS
READ_TILE = 4 * 8 * THREADS
COPY_TILE = 4 * 4 * THREADS
WRITE_ROWS = 4
CHAINS = 8
FMA_STEPS = 2048
SIDE, DEPTH, DEPTH_OF_8_BITS = 32, 16, 32
MMA_STEPS = 1024
_SOURCES = Path(__file__).parent
_HINT = Attribute("hint", ("plain", "streaming"), "how data that is used once is marked for the caches")


def _by_blocks(entry: str, source: str, tiles: DimLike, extra: DimLike) -> tuple[Variant, ...]:
    """Make a variant for each number of blocks; ``extra`` is the size that the kernel receives."""
    grids: dict[str, DimLike] = {f"blocks{count}": count * MULTIPROCESSORS for count in BLOCKS}
    return tuple(
        Variant(name, Launch((grid, 1, 1), (THREADS, 1, 1), (extra,)), f"{name} of {THREADS}", source, entry)
        for name, grid in {**grids, "tiles": tiles}.items()
    )


def _read(x: np.ndarray, hint: str) -> np.ndarray:
    return np.array([x.max()])


READ = Kernel(
    name="ceiling_read",
    doc="the largest of n integers",
    axes=(Axis("n", "numbers"),),
    inputs=(Tensor("x", (n,), "int32", "numbers"),),
    outputs=(Tensor("y", (1,), "int32", "the largest; the smallest integer beforehand"),),
    types=(Types("int32", {}, tolerance=0.0),),
    variants=_by_blocks("ceiling_read", "read.cu", ceil_div(n, READ_TILE), n),
    attributes=(_HINT,),
    reference=_read,
    examples=({"n": 1}, {"n": 1023}, {"n": 3 * READ_TILE + 5}, {"n": 1 << 20}),
    flops=n,
    source_dir=_SOURCES,
)


def _copy(x: np.ndarray, hint: str) -> np.ndarray:
    return x


COPY = Kernel(
    name="ceiling_copy",
    doc="n numbers, copied",
    axes=(Axis("n", "numbers"),),
    inputs=(Tensor("x", (n,), "float32", "from"),),
    outputs=(Tensor("y", (n,), "float32", "to"),),
    types=(Types("fp32", {}, tolerance=0.0),),
    variants=_by_blocks("ceiling_copy", "copy.cu", ceil_div(n, COPY_TILE), n),
    attributes=(_HINT,),
    reference=_copy,
    examples=({"n": 1}, {"n": 1023}, {"n": 3 * COPY_TILE + 5}, {"n": 1 << 20}),
    flops=0,
    source_dir=_SOURCES,
)


def _write(a: np.ndarray, b: np.ndarray, hint: str) -> np.ndarray:
    return a[:, None] + b[None, :]


WRITE = Kernel(
    name="ceiling_write",
    doc="all sums of two vectors",
    axes=(Axis("rows", "numbers in a"),),
    inputs=(
        Tensor("a", (rows,), "float32", "a sum's first part"),
        Tensor("b", (COLUMNS,), "float32", "its second part"),
    ),
    outputs=(Tensor("y", (rows, COLUMNS), "float32", "sums"),),
    types=(Types("fp32", {}, tolerance=1e-7),),
    variants=_by_blocks("ceiling_write", "write.cu", ceil_div(rows, WRITE_ROWS), rows),
    attributes=(_HINT,),
    reference=_write,
    examples=({"rows": 1}, {"rows": 257}, {"rows": 1030}),
    flops=rows * COLUMNS,
    source_dir=_SOURCES,
)


def _fma(x: np.ndarray, a: np.ndarray, steps: int) -> np.ndarray:
    chains = x[:, None] + np.arange(CHAINS)
    for _ in range(steps):
        chains = chains * a[:, None] + x[:, None]
    return chains.sum(axis=1)


FMA = Kernel(
    name="ceiling_fma",
    doc="chains of multiply-adds in registers",
    axes=(Axis("n", "threads"),),
    inputs=(Tensor("x", (n,), "float32", "addends"), Tensor("a", (n,), "float32", "factors, between -1 and 1")),
    outputs=(Tensor("y", (n,), "float32", "sums of the chains"),),
    types=(Types("fp32", {}, tolerance=1e-4),),
    variants=tuple(
        Variant(
            f"threads{threads}",
            Launch((ceil_div(n, threads), 1, 1), (threads, 1, 1), (n,)),
            f"blocks of {threads}",
            "fma.cu",
            "ceiling_fma",
        )
        for threads in (128, 256, 512)
    ),
    attributes=(Attribute("steps", (FMA_STEPS, 64), "multiply-adds a chain"),),
    reference=_fma,
    examples=({"n": 1}, {"n": 1000}),
    flops=2 * CHAINS * FMA_STEPS * n,
    source_dir=_SOURCES,
)


def _by_threads(entry: str, source: str) -> tuple[Variant, ...]:
    """Make a variant for each number of threads a block, a warp a product."""
    return tuple(
        Variant(
            f"threads{threads}",
            Launch((ceil_div(warps, threads // 32), 1, 1), (threads, 1, 1), (warps,)),
            f"blocks of {threads}",
            source,
            entry,
        )
        for threads in (128, 256)
    )


def _mma(a: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    return steps * (a @ b)


MMA = Kernel(
    name="ceiling_mma",
    doc="products of small matrices by mma.sync",
    axes=(Axis("warps", "products"),),
    inputs=(Tensor("a", (warps, SIDE, DEPTH), "T", "left"), Tensor("b", (warps, DEPTH, SIDE), "T", "right")),
    outputs=(Tensor("y", (warps, SIDE, SIDE), "float32", "the product, once for each step"),),
    types=(
        Types("tf32", {"T": "float32"}, tolerance=2e-3),
        Types("fp16", {"T": "float16"}, tolerance=1e-3),
        Types("bf16", {"T": "bfloat16"}, tolerance=1e-3),
    ),
    variants=_by_threads("ceiling_mma", "mma.cu"),
    attributes=(Attribute("steps", (MMA_STEPS, 16), "products summed"),),
    reference=_mma,
    examples=({"warps": 1}, {"warps": 37}),
    flops=2 * SIDE * SIDE * DEPTH * MMA_STEPS * warps,
    source_dir=_SOURCES,
)


def _mma8(a: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    return steps * (a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1))


MMA8 = Kernel(
    name="ceiling_mma8",
    doc="products of small matrices of 8 bits by mma.sync",
    axes=(Axis("warps", "products"),),
    inputs=(
        Tensor("a", (warps, SIDE, DEPTH_OF_8_BITS), "T", "left"),
        Tensor("b", (warps, SIDE, DEPTH_OF_8_BITS), "T", "right, transposed"),
    ),
    outputs=(Tensor("y", (warps, SIDE, SIDE), "S", "the product, once for each step"),),
    types=(
        Types("int8", {"T": "int8", "S": "int32"}, tolerance=0.0),
        # Hopper adds products of float8 in fewer bits than a float has.
        Types("fp8", {"T": "float8_e4m3fn", "S": "float32"}, tolerance=2e-2),
    ),
    variants=_by_threads("ceiling_mma8", "mma8.cu"),
    attributes=(Attribute("steps", (MMA_STEPS, 16), "products summed"),),
    reference=_mma8,
    examples=({"warps": 1}, {"warps": 37}),
    flops=2 * SIDE * SIDE * DEPTH_OF_8_BITS * MMA_STEPS * warps,
    source_dir=_SOURCES,
)


def _nothing(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


NOTHING = Kernel(
    name="ceiling_nothing",
    doc="a launch",
    axes=(Axis("n", "numbers that are left alone"),),
    inputs=(Tensor("x", (n,), "int32", "not read"),),
    outputs=(Tensor("y", (n,), "int32", "not written"),),
    types=(Types("int32", {}, tolerance=0.0),),
    variants=(Variant("one", Launch((1, 1, 1), (32, 1, 1), (n,)), "a block", "nothing.cu", "ceiling_nothing"),),
    reference=_nothing,
    examples=({"n": 1},),
    flops=0,
    source_dir=_SOURCES,
)

# NOTHING computes nothing that could be compared with a reference.
CHECKED = (READ, COPY, WRITE, FMA, MMA, MMA8)
KERNELS = (*CHECKED, NOTHING)
