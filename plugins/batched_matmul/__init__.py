"""Declare ``batched_matmul``: MatMul of many small matrices, either operand transposed or not."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, DimLike, axes, ceil_div, maximum, minimum, product, remainder, size_of
from lenet_trt.kernel import Axis, FloatAttribute, Kernel, Launch, Tensor, Variant, float_types

from .pattern import LARGEST, PATTERNS

batch, m, n = axes("batch m n")
k_before_m, k_after_m, k_before_n, k_after_n = axes("k_before_m k_after_m k_before_n k_after_n")
k = k_before_m * k_after_m
THREADS = 128
# A block has as many products as fit in this, and at least one; it goes on until all are done, so any grid is right.
BLOCK_BYTES = 16 * 1024
# Conditions under which variants were the fastest on an H200 or an H100: see docs/kernels/batched_matmul.md.
few_rows = (m * k <= 64) & (k_after_n <= 8) & k.multiple_of(4) & n.multiple_of(4)
# With fewer products than multiprocessors, twice as many threads a product are faster than fewer loads.
window = (m > 32) & (m < 64) & (n >= 32) & (batch >= MULTIPROCESSORS)
fills_tensor_cores = minimum(minimum(m, n), k) >= 8
one_product = product((m * k + k * n + m * n, size_of("T")))


def reference(a: np.ndarray, b: np.ndarray, *, alpha: float) -> np.ndarray:
    """Compute the products."""
    rows, columns = (x[:, 0] if x.shape[1] == 1 else x[..., 0].swapaxes(1, 2) for x in (a, b))
    return alpha * (rows @ columns.swapaxes(1, 2))


def tensor(types: str, min_sm: int, suffix: str) -> tuple[Variant, ...]:
    """Make the tensor-core variants for one 16-bit type."""
    together = maximum(minimum(1024 // ((m + n) * k * size_of("T")), 4), 1)  # products of a warp
    # Where k is no multiple of 16, a lane of tensor_direct loads 4 bytes at a time, and half of what it multiplies is
    # zeros. That is good where a warp has several small products on the way, or where tensor is not for so few rows.
    half_empty = minimum(remainder(k, 16), 1) * minimum(m // 8, 1)
    warps = ceil_div(batch, together) * ceil_div(m, 16 * minimum(ceil_div(m, 16), 2))
    return (
        Variant(
            f"tensor_direct{suffix}",
            Launch((ceil_div(warps, THREADS // 32), 1, 1), (THREADS, 1, 1), extras=(batch,)),
            "tensor cores, operands from L1",
            source="tensor_core_direct.cu",
            entry="batched_matmul_tensor_direct",
            min_sm=min_sm,
            types=(types,),
            when=k_before_m.equals(1) & k.multiple_of(8) & n.multiple_of(8),
            prefer=half_empty < together,
        ),
        Variant(
            f"tensor{suffix}",
            Launch((ceil_div(batch, maximum(BLOCK_BYTES // one_product, 1)), 1, 1), (THREADS, 1, 1), extras=(batch,)),
            "tensor cores, operands from shared memory",
            source="tensor_core.cu",
            entry="batched_matmul_tensor",
            min_sm=min_sm,
            types=(types,),
            prefer=fills_tensor_cores,
        ),
    )


def example(count: int, rows: int, inner: int, columns: int, layout: str = "nn") -> dict[str, int]:
    """Return axis values; ``layout`` says of a and of b whether it is transposed ("t") or not ("n")."""
    return {
        "batch": count,
        "m": rows,
        "n": columns,
        "k_before_m": inner if layout[0] == "t" else 1,
        "k_after_m": 1 if layout[0] == "t" else inner,
        "k_before_n": 1 if layout[1] == "t" else inner,
        "k_after_n": inner if layout[1] == "t" else 1,
    }


def staged(name: str, note: str, threads: int, block_bytes: int, rows: DimLike, columns: int, **more: Any) -> Variant:
    """Make a variant in which each thread has up to ``rows`` rows and ``columns`` columns, from shared memory."""
    tiles = ceil_div(m, rows) * ceil_div(n, columns)
    group = maximum(minimum(block_bytes // one_product, threads // tiles), 1)
    return Variant(name, Launch((ceil_div(batch, group), 1, 1), (threads, 1, 1), extras=(batch,)), note, **more)


KERNEL = Kernel(
    name="batched_matmul",
    doc="y = alpha MatMul(a, b) of many matrices of up to 64 rows and columns, a and b transposed or not",
    axes=(
        Axis("batch", "products"),
        Axis("m", "rows of a product", static=True),
        Axis("n", "columns of a product", static=True),
        Axis("k_before_m", "length of the sums where a is transposed, otherwise 1", static=True),
        Axis("k_after_m", "length of the sums where a is not transposed, otherwise 1", static=True),
        Axis("k_before_n", "length of the sums where b is not transposed, otherwise 1", static=True),
        Axis("k_after_n", "length of the sums where b is transposed, otherwise 1", static=True),
    ),
    inputs=(
        Tensor("a", (batch, k_before_m, m, k_after_m), "T", "left matrices"),
        Tensor("b", (batch, k_before_n, n, k_after_n), "T", "right matrices"),
    ),
    outputs=(Tensor("y", (batch, m, n), "T", "products"),),
    types=float_types(),
    attributes=(FloatAttribute("alpha", (1.0, 0.125), "factor of the products"),),
    variants=(
        *tensor("fp16", 75, ""),
        *tensor("bf16", 80, "_bf16"),
        Variant(
            "direct",
            Launch((ceil_div(batch * m * ceil_div(n, 4), THREADS), 1, 1), (THREADS, 1, 1), extras=(batch,)),
            "a thread 4 columns of a row, from L1",
            source="direct.cu",
            prefer=few_rows,
        ),
        staged("wide", "8 rows and 8 columns a thread, from shared memory", 64, 45 * 1024, 8, 8, prefer=window),
        staged(
            "staged",
            "4 or 8 rows and 4 columns a thread, from shared memory",
            *(128, 24 * 1024, 4 * minimum(ceil_div(m, 32), 2), 4),
            entry="batched_matmul",
        ),
    ),
    patterns=PATTERNS,
    reference=reference,
    # Elements are counted in 64 bits; a launch refuses more products than an int counts.
    max_elements=2**40,
    # Without the batch, so that it is known as soon as the sizes of a matrix are.
    requires=(
        (k_before_m * k_after_m).equals(k_before_n * k_after_n)
        & minimum(k_before_m, k_after_m).equals(1)
        & minimum(k_before_n, k_after_n).equals(1)
        & (maximum(maximum(m, n), k) <= LARGEST)
    ),
    # Larger ones are the windows of an attention, which TensorRT computes in one region with its softmax (docs/zoo.md).
    claims=(maximum(maximum(m, n), k) <= 32,),
    examples=(
        example(1, 1, 1, 2),
        example(333, 8, 8, 8),
        example(77, 5, 7, 3, "tt"),
        example(35, 49, 32, 49, "nt"),
        example(35, 49, 49, 32),
        example(9, 64, 64, 64, "tn"),
        example(131, 16, 24, 40, "nt"),
        example(101, 1, 64, 64),
        example(23, 33, 13, 6, "tn"),
    ),
    flops=2 * product((batch, m, n, k)),
    source_dir=Path(__file__).parent,
)
