"""Records to test with, and a suite that is measured in a moment on any machine."""

from __future__ import annotations

import random
from typing import Any

from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.cuda.timing import time_on_host_in_turns
from lenet_trt.draw.chart import Chart, Series

SIZES = (100, 1000)


def stats(median_us: float, spread: float = 0.02, count: int = 40) -> Stats:
    """Timings around a median."""
    draw = random.Random(median_us)
    return summarize([median_us * (1 + spread * draw.uniform(-0.5, 0.5)) for _ in range(count)])


def record(*rows: Row, suite: str = "sweep", **changes: Any) -> Record:
    """A record with these rows, made on a GPU that does not exist."""
    facts = {
        "command": f"lenet-trt bench {suite}",
        "date": "2030-01-01 00:00 UTC",
        "commit": "0" * 40,
        "environment": {"gpu": "GPU X", "driver": "1.2", "cpu": "CPU Y", "packages": {"torch": "9.9"}},
        "plan": {"rounds": 5, "burst": 8},
        **changes,
    }
    return Record(suite=suite, rows=rows, **facts)


def measure(options: SuiteOptions) -> Record:
    """Sort lists, some of them in a way that does not exist."""
    with recording("sorting", options) as found:
        for n in options.batches or SIZES:
            values = list(range(n, 0, -1))
            times = time_on_host_in_turns(
                {"sorted": lambda v=values: sorted(v), "max": lambda v=values: max(v)}, options.plan
            )
            for name, timed in times.items():
                found.add(Row(name, {"n": n}, timed, extra={"items": n, "accuracy": 1.0}))
            found.cannot("quantum sort", {"n": n}, "there is no quantum computer here")
            if n > 10**6:
                raise KeyboardInterrupt
    return found.finish()


def charts(record: Record) -> list[Chart]:
    """Time against length."""
    names = dict.fromkeys(row.backend for row in record.timed)
    series = []
    for name in names:
        rows = [row for row in record.timed if row.backend == name]
        series.append(
            Series(name, [int(r.case["n"]) for r in rows], [r.stats.median_us if r.stats else None for r in rows])
        )
    return [Chart("Sorting", "length", "us", series, x_log=True, y_log=True)]
