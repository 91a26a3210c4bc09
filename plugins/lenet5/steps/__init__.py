"""Describe how the steps of ``lenet5`` are launched; the header of each file describes the step."""

from __future__ import annotations

from dataclasses import replace

from lenet_trt.dims import DimLike, axes, ceil_div
from lenet_trt.kernel.steps import Step, StepLaunch

from .. import WEIGHTS

(n,) = axes("n")
THREADS = 256
GLOBAL = "01_one_thread_an_output.cu"
CONSTANT = "02_constant_memory.cu"
SHARED = "03_shared_memory.cu"
POOLED = {"p1": (n, 6, 12, 12), "p2": (n, 256), "h1": (n, 120), "h2": (n, 84)}


def a_thread_an_output(entry: str, outputs: DimLike, *arguments: str | DimLike) -> StepLaunch:
    """Make a launch of step 1."""
    return StepLaunch(GLOBAL, entry, (ceil_div(outputs, THREADS), 1, 1), THREADS, arguments)


def a_block_an_image(source: str, entry: str, block: int, *arguments: str | DimLike) -> StepLaunch:
    """Make a launch of the steps after step 1."""
    return StepLaunch(source, entry, (n, 1, 1), block, arguments)


LINEAR = (
    a_thread_an_output("linear_relu", n * 120, "p2", "fc1_weight", "fc1_bias", n, 256, 120, "h1"),
    a_thread_an_output("linear_relu", n * 84, "h1", "fc2_weight", "fc2_bias", n, 120, 84, "h2"),
    a_thread_an_output("linear", n * 10, "h2", "fc3_weight", "fc3_bias", n, 84, 10, "y"),
)
FIRST = Step(
    "1: a thread an output",
    (
        a_thread_an_output("conv5x5_relu", n * 6 * 24 * 24, "x", "conv1_weight", "conv1_bias", n, 1, 28, 6, "c1"),
        a_thread_an_output("maxpool2x2", n * 6 * 12 * 12, "c1", n * 6, 24, "p1"),
        a_thread_an_output("conv5x5_relu", n * 16 * 8 * 8, "p1", "conv2_weight", "conv2_bias", n, 6, 12, 16, "c2"),
        a_thread_an_output("maxpool2x2", n * 16 * 4 * 4, "c2", n * 16, 8, "p2"),
        *LINEAR,
    ),
    buffers={"c1": (n, 6, 24, 24), "c2": (n, 16, 8, 8), **POOLED},
)
STEPS = (
    replace(FIRST, name="1: a thread an output, a sync after each launch", sync=True),
    FIRST,
    Step(
        "2: filters in constant memory, pool fused",
        (
            a_block_an_image(CONSTANT, "conv1_relu_pool_constant", 960, "x", n, "p1"),
            a_block_an_image(CONSTANT, "conv2_relu_pool_constant", 512, "p1", n, "p2"),
            *LINEAR,
        ),
        buffers=POOLED,
        constants={name: name for name in WEIGHTS if name.startswith("conv")},
    ),
    Step(
        "3: shared memory, a warp a row",
        (
            a_block_an_image(SHARED, "conv1_relu_pool_shared", THREADS, "x", "conv1_weight", "conv1_bias", n, "p1"),
            a_block_an_image(SHARED, "conv2_relu_pool_shared", THREADS, "p1", "conv2_weight", "conv2_bias", n, "p2"),
            a_block_an_image(SHARED, "linear_relu_shared", THREADS, "p2", "fc1_weight", "fc1_bias", n, 256, 120, "h1"),
            a_block_an_image(SHARED, "linear_relu_shared", THREADS, "h1", "fc2_weight", "fc2_bias", n, 120, 84, "h2"),
            a_block_an_image(SHARED, "linear_shared", THREADS, "h2", "fc3_weight", "fc3_bias", n, 84, 10, "y"),
        ),
        buffers=POOLED,
    ),
    Step(
        "4: one launch, a block an image",
        (a_block_an_image("04_whole_network.cu", "lenet5_whole_network", THREADS, "x", *WEIGHTS, n, "y"),),
    ),
)
