"""Describe how the steps of ``conv5x5_bias`` are launched; the header of each file describes the step."""

from __future__ import annotations

from lenet_trt.dims import DimLike, ceil_div
from lenet_trt.export.cases import CONV_BATCH, ConvCase
from lenet_trt.kernel.steps import CpuStep, Step, StepLaunch, like_variant

from ...conv5x5.declaration import h, k, n, w
from .. import KERNEL

THREADS = 256
PIXELS = (h - 4) * (w - 4)
ARGUMENTS: tuple[str | DimLike, ...] = ("x", "w", "bias", n, "y")


def conv_step(name: str, source: str, entry: str, *grid: DimLike, constants: dict[str, str] | None = None) -> Step:
    """Make a step with one launch."""
    x, y = (*grid, 1)[:2]
    return Step(name, (StepLaunch(source, entry, (x, y, 1), THREADS, ARGUMENTS),), constants=constants or {})


CPU_STEP = CpuStep(
    "0: loops on one CPU thread",
    "00_cpu_loop.c",
    "conv5x5_bias_step00",
    {"n": CONV_BATCH, **ConvCase().axes},
    fewer=(100, 1000),
)
STEPS = (
    conv_step("1: a thread an output", "01_global_memory.cu", "conv5x5_bias_step01", ceil_div(n * k * PIXELS, THREADS)),
    conv_step(
        "2: filters in constant memory",
        "02_constant_memory.cu",
        "conv5x5_bias_step02",
        ceil_div(n * PIXELS, THREADS),
        k,
        constants={"conv5x5_bias_weights": "w"},
    ),
    conv_step("3: images in shared memory", "03_shared_tile.cu", "conv5x5_bias_step03", n),
    like_variant(
        "4: tiles in registers", KERNEL.variant("ffma"), "04_register_tile.cu", "conv5x5_bias_step04", ARGUMENTS
    ),
    like_variant(
        "5: tensor cores, split floats",
        KERNEL.variant("split"),
        "05_tensor_cores.cu",
        "conv5x5_bias_step05",
        ARGUMENTS,
    ),
)
