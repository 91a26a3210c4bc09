"""Describe how the steps of ``batched_matvec`` are launched; the header of each file describes the step."""

from __future__ import annotations

from lenet_trt.dims import DimLike, ceil_div, size_of
from lenet_trt.kernel.steps import Step, StepLaunch

from .. import all_rows, broadcast, inner, k, outer, rows

THREADS = 256
PACK_BYTES = 16
LANES = k * size_of("T") // PACK_BYTES


def matvec_step(name: str, source: str, entry: str, threads: DimLike) -> Step:
    """Make a step with one launch."""
    arguments = ("a", "x", outer, broadcast, inner, rows, "y")
    grid: tuple[DimLike, DimLike, DimLike] = (ceil_div(threads, THREADS), 1, 1)
    return Step(name, (StepLaunch(source, entry, grid, THREADS, arguments),))


STEPS = (
    matvec_step("1: a thread a row", "01_thread_a_row.cu", "batched_matvec_step01", all_rows),
    matvec_step("2: a warp a row", "02_warp_a_row.cu", "batched_matvec_step02", all_rows * 32),
    matvec_step("3: 16-byte loads", "03_wide_loads.cu", "batched_matvec_step03", all_rows * LANES),
    matvec_step(
        "4: four rows in flight", "04_rows_in_flight.cu", "batched_matvec_step04", ceil_div(all_rows, 4) * LANES
    ),
)
