"""Measure the suite ``sweep``: the time per image over the batch size, and from which batch on a GPU beats the CPU.

A time is how long a caller waits, by the host's clock, from the call to the last logit. For backends on the GPU the
images lie in GPU memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lenet_trt.bench import leads
from lenet_trt.bench.backends.listed import NAIVE, backends
from lenet_trt.bench.backends.measure import about, measure_batch, not_quick, opened
from lenet_trt.bench.backends.protocol import Backend, mnist
from lenet_trt.bench.crossovers import crossovers
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.bench.ten_thousand import gpu_alone, interval
from lenet_trt.draw.chart import Chart, Series

BATCHES = tuple(1 << power for power in range(15))
QUICK_BATCHES = (1, 32, 1024)
# A backend whose call would take more seconds is not timed: its row says so.
LIMIT_S = 0.5
QUICK_LIMIT_S = 0.3
# Seconds of timing that a slow backend gets at each batch.
_BUDGET_S = 0.5
# A picture with these lines too would not be readable; the table has them.
_NOT_DRAWN = ("torch CPU, 1 thread", "torch CPU", f"{NAIVE}, PyCUDA", "ONNX Runtime CUDA")
_EMPHASIZED, _SAME_KERNEL = "TensorRT + plugins", "lenet5 kernel"


def measure(options: SuiteOptions) -> Record:
    """Time every backend at each batch, small ones first."""
    return measure_sweep(options, backends(options))


def measure_sweep(options: SuiteOptions, chosen: Sequence[Backend]) -> Record:
    """Time these backends at each batch, small batches first."""
    plan = replace(options.plan, budget_s=min(options.plan.budget_s, _BUDGET_S))
    batches = sorted(set(options.batches or (QUICK_BATCHES if options.quick else BATCHES)))
    # Batches that the user named are measured, however long they take.
    limit_s = math.inf if options.batches else QUICK_LIMIT_S if options.quick else LIMIT_S
    left_out = not_quick(chosen) if options.quick else {}
    with recording("sweep", options) as found, opened(chosen, found, left_out) as ready:
        running = [each for each in ready if each.session is not None]
        try:
            for each in ready:
                if each.session is None:  # one row gives the reason for all batches
                    found.cannot(each.backend.name, {"batch": "any"}, each.problem or "", **about(each.backend))
                elif each.backend.batches and not options.batches:
                    taken = [str(batch) for batch in batches if batch in each.backend.batches]
                    why = f"measured at {', '.join(taken) or 'none of these'} alone: it takes some seconds for each"
                    found.cannot(each.backend.name, {"batch": "other"}, why, **about(each.backend))
            for batch in batches:
                at = [e for e in running if options.batches or not e.backend.batches or batch in e.backend.batches]
                measure_batch(found, at, mnist(batch), {"batch": batch}, plan, limit_s=limit_s)
        finally:  # an interruption keeps its crossovers too
            found.details["crossovers"] = [each.as_json() for each in crossovers(found.rows)]
    return found.finish()


def summaries(record: Record) -> list[Summary]:
    """Return who is fastest where."""
    return list(leads.sweep_summaries(record.rows))


def columns(record: Record) -> list[Column]:
    """Return the columns: batch, backend, time with its interval, time per image, and the GPU's own time."""
    return [
        Column("batch", lambda row: str(row.case["batch"])),
        Column("backend", lambda row: row.backend, left=True),
        Column("time", lambda row: duration(_median(row)) if row.stats else "-"),
        Column("95% interval", interval),
        Column("an image", lambda row: duration(_median(row) / int(row.case["batch"])) if row.stats else "-"),
        Column("gpu alone", gpu_alone),
        Column("error", lambda row: f"{row.extra['error']:.1e}" if "error" in row.extra else "-"),
    ]


def charts(record: Record) -> list[Chart]:
    """Draw microseconds per image over the batch, in fp32: how long a caller waits."""
    names = dict.fromkeys(row.backend for row in record.timed if row.extra.get("precision", "fp32") == "fp32")
    emphasized = _EMPHASIZED if _EMPHASIZED in names else _SAME_KERNEL
    hidden = {*_NOT_DRAWN, _EMPHASIZED, _SAME_KERNEL} - {emphasized}  # two lines of one kernel would cover each other
    series = [_series(record, name, name == emphasized) for name in names if name not in hidden]
    # A single point would not show among lines.
    several = [each for each in series if len(each.x) > 1]
    if not series:
        return []
    where = f"{record.gpu or record.environment.get('cpu')}, by the host's clock"
    title, unit = "LeNet-5 in fp32: what a caller waits", "microseconds an image"
    return [Chart(title, "batch", unit, several or series, True, True, (where,), named_at_ends=True)]


def _series(record: Record, name: str, emphasis: bool) -> Series:
    found = [(int(row.case["batch"]), row.stats) for row in record.timed if row.backend == name and row.stats]
    return Series(
        name,
        [batch for batch, _ in found],
        [stats.median_us / batch for batch, stats in found],
        emphasis=emphasis,
        low=[stats.low_us / batch for batch, stats in found],
        high=[stats.high_us / batch for batch, stats in found],
    )


def _median(row: Row) -> float:
    assert row.stats is not None
    return row.stats.median_us
