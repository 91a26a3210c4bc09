"""Describe how the steps of ``batched_matmul`` are launched; the header of each file describes the step."""

from __future__ import annotations

from lenet_trt.dims import DimLike, ceil_div
from lenet_trt.kernel.steps import Step, StepLaunch

from .. import batch, m, n

THREADS, PRODUCT_THREADS = 256, 128


def matmul_step(name: str, source: str, entry: str, blocks: DimLike, threads: int) -> Step:
    """Make a step with one launch."""
    return Step(name, (StepLaunch(source, entry, (blocks, 1, 1), threads, ("a", "b", batch, "y")),))


STEPS = (
    matmul_step(
        "1: a thread an element",
        "01_thread_an_element.cu",
        "batched_matmul_step01",
        ceil_div(batch * m * n, THREADS),
        THREADS,
    ),
    matmul_step("2: a block a product", "02_block_a_product.cu", "batched_matmul_step02", batch, PRODUCT_THREADS),
    matmul_step("3: tiles in registers", "03_tiles.cu", "batched_matmul_step03", batch, PRODUCT_THREADS),
)
