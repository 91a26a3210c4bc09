"""What the record of the suite ``occupancy`` says: a table, sentences and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import Column, duration
from lenet_trt.draw.chart import Chart, Series

# Enough of the largest throughput to call the GPU full.
_FULL_PERCENT = 90.0
# What a picture shows of a backend, where it is known, and how.
_LINES = (
    ("images_percent", "throughput, of the largest", True),
    ("sm_active_percent", "SMs active (ncu)", False),
    ("sm_throughput_percent", "SM throughput (ncu)", False),
    ("dram_percent", "memory bandwidth (ncu)", False),
    ("multiprocessors_percent", "SMs with a block", False),
    ("threads_percent", "threads, of those that fit", False),
)
_PICTURED = ("lenet5 kernel", "lenet5 kernel, fp16", "torch CUDA graph")


def columns(record: Record) -> list[Column]:
    """Throughput, the launch, and what the hardware counted."""
    return [
        Column("batch", lambda row: str(row.case["batch"])),
        Column("backend", lambda row: row.backend, left=True),
        Column("median", lambda row: duration(row.stats.median_us) if row.stats else "-"),
        Column("images/s", lambda row: f"{row.extra['images_per_s']:,}" if "images_per_s" in row.extra else "-"),
        Column("of the largest", partial(_percent, "images_percent")),
        Column("blocks", lambda row: f"{row.extra['blocks']:,}" if "blocks" in row.extra else "-"),
        Column("fit an SM", lambda row: str(row.extra.get("resident", "-"))),
        Column("SMs with a block", partial(_percent, "multiprocessors_percent")),
        Column("threads there", partial(_percent, "threads_percent")),
        Column("kernels run", partial(_percent, "busy_percent")),
        Column("SM active", partial(_percent, "sm_active_percent")),
        Column("SM throughput", partial(_percent, "sm_throughput_percent")),
        Column("DRAM", partial(_percent, "dram_percent")),
    ]


def explained(rows: Sequence[Row], no_counters: str | None) -> list[str]:
    """What the figures mean."""
    notes = []
    for backend in dict.fromkeys(row.backend for row in rows):
        timed = [row for row in rows if row.backend == backend and row.stats is not None]
        if timed:
            notes.append(_why_idle(timed))
    if notes:
        notes.append(
            "kernels run: how much of the time between two answers a kernel ran, by ncu's times of single kernels, "
            "which count the start and the end of each, so that many short ones seem to fill all of it. SM active, SM "
            "throughput and DRAM: while they ran, several kernels weighted by time, inputs in L2 where they fit. A "
            "CUDA graph launches the kernels that torch launches without one, so these were counted once."
        )
    if no_counters is not None:
        notes.append(f"SM active, SM throughput and DRAM are missing: {no_counters}.")
    return notes


def _why_idle(rows: Sequence[Row]) -> str:
    """Of one backend: what its smallest batch leaves idle, and from which on the GPU is full."""
    smallest = min(rows, key=lambda row: int(row.case["batch"]))
    extra = smallest.extra
    assert smallest.stats is not None
    told = [f"{smallest.backend}, batch {smallest.case['batch']}: {duration(smallest.stats.median_us)}"]
    if "blocks" in extra:
        told.append(
            f"its {extra['blocks']:,} blocks of {extra['block_threads']} threads can be on {extra['blocks']:,} of the "
            f"{extra['multiprocessors']} multiprocessors at most and hold {extra['threads_percent']:.1f}% of the "
            "threads that fit"
            if extra["blocks"] <= extra["multiprocessors"]
            else f"its {extra['blocks']:,} blocks reach all {extra['multiprocessors']} multiprocessors"
        )
    if "busy_percent" in extra:
        told.append(
            f"{extra['kernels']} kernel{'s' if extra['kernels'] > 1 else ''} ran {extra['busy_percent']:.0f}% of that "
            f"time, with {extra['sm_active_percent']:.1f}% of the multiprocessors active and their busiest unit at "
            f"{extra['sm_throughput_percent']:.1f}%"
        )
    told.append(f"that is {extra['images_percent']:.2f}% of its largest throughput")
    full = [row for row in rows if row.extra["images_percent"] >= _FULL_PERCENT]
    if full:
        told.append(f"{_FULL_PERCENT:.0f}% are reached at batch {min(int(row.case['batch']) for row in full):,}")
    return "; ".join(told) + "."


def charts(record: Record) -> list[Chart]:
    """Batch against percent, a panel a backend."""
    found = []
    for backend in _PICTURED:
        rows = sorted(
            (row for row in record.rows if row.backend == backend and row.stats is not None),
            key=lambda row: int(row.case["batch"]),
        )
        batches = [int(row.case["batch"]) for row in rows]
        lines = []
        for name, label, emphasis in _LINES:
            values = [row.extra.get(name) for row in rows]
            if any(value is not None for value in values):
                lines.append(Series(label, batches, values, emphasis=emphasis))
        if lines:
            found.append(
                Chart(f"How full the GPU is: {backend}", "batch (images)", "percent of the GPU", lines, x_log=True)
            )
    return found


def _percent(name: str, row: Row) -> str:
    value = row.extra.get(name)
    return "-" if value is None else f"{value:.1f}%"
