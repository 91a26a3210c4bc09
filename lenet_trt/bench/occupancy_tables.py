"""Make the tables and pictures of the suite ``occupancy`` from its record."""

from __future__ import annotations

from functools import partial

from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.draw.chart import Chart, Series

# The GPU counts as full from this share of the largest throughput on.
_FULL_PERCENT = 90.0
# The lines of a backend's picture: figure, label, emphasized. A figure that is not known has no line.
_LINES = (
    ("images_percent", "throughput, of the largest", True),
    ("sm_active_percent", "SMs active (ncu)", False),
    ("sm_throughput_percent", "SM throughput (ncu)", False),
    ("dram_percent", "memory bandwidth (ncu)", False),
    ("multiprocessors_percent", "SMs with a block", False),
    ("threads_percent", "threads, of those that fit", False),
)
# torch eager runs the kernels of the CUDA graph, which has a panel.
_NOT_PICTURED = ("torch eager",)


def columns(record: Record) -> list[Column]:
    """Return the columns: throughput, the launch, and the hardware counters."""
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


def summaries(record: Record) -> list[Summary]:
    """Return what the smallest batch of each backend uses, and the batch that fills the GPU."""
    lines = []
    for backend in dict.fromkeys(row.backend for row in record.timed):
        rows = sorted((r for r in record.timed if r.backend == backend), key=lambda row: int(row.case["batch"]))
        full = next((r for r in rows if r.extra.get("images_percent", 0) >= _FULL_PERCENT), None)
        lines.append(
            [
                backend,
                str(rows[0].case["batch"]),
                _percent("images_percent", rows[0], 2),
                str(rows[0].extra.get("kernels", "-")),
                "-" if full is None else f"{int(full.case['batch']):,}",
            ]
        )
    headings = ("backend", "batch", "of its largest throughput", "kernels", f"{_FULL_PERCENT:.0f}% from batch")
    title = "The smallest batch, and the first one that fills the GPU"
    return [Summary(title, headings, lines, headings[1:])] if lines else []


def charts(record: Record) -> list[Chart]:
    """Draw percentages over the batch, a panel for each backend."""
    found = []
    listed = dict.fromkeys(row.backend for row in record.timed)
    for backend in [name for name in listed if name not in _NOT_PICTURED]:
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


def _percent(name: str, row: Row, digits: int = 1) -> str:
    value = row.extra.get(name)
    return "-" if value is None else f"{value:.{digits}f}%"
