"""Make the tables and the picture of the suite ``latency`` from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lenet_trt.bench.latency.loads import IDLE
from lenet_trt.bench.latency.percentiles import PERCENTILES
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.draw.chart import Chart, Series

# More lines cannot be told apart; the table has them all.
_MOST_LINES = 8
_NOT_DRAWN = (
    "ONNX Runtime CPU",
    "torch eager",
    "torch.compile, tuned + graph",
    "TensorRT + plugins",
    "lenet5 kernel, ordinary call",
    "lenet5 kernel, pinned copies",
    "torch's kernels, latency path",
    "resident kernel, alone on its SMs",
)


def columns(record: Record) -> list[Column]:
    """Return the columns: load, answerer, percentiles, the slowest request and the number of requests."""
    return [
        Column("other work", lambda row: str(row.case["load"]), left=True),
        Column("answered by", lambda row: row.backend, left=True),
        *(Column(_heading(name), partial(_percentile, name)) for name in PERCENTILES),
        Column("slowest", lambda row: duration(row.stats.max_us) if row.stats else "-"),
        Column("requests", lambda row: f"{row.stats.count:,}" if row.stats else "-"),
        Column("error", lambda row: f"{row.extra['error']:.1e}" if row.extra.get("error") is not None else "-"),
    ]


def summaries(record: Record) -> list[Summary]:
    """Return the ledger of one request of each path, where it was measured."""
    return [_ledger(name, terms) for name, terms in record.details.get("ledger", {}).items()]


def _ledger(name: str, terms: Sequence[Mapping[str, Any]]) -> Summary:
    whole = sum(term["us"] for term in terms)
    lines = [[term["term"], f"{term['us']:.2f} us", f"{term['us'] / whole:.0%}"] for term in terms]
    headings = ("part", "time", "share")
    title = f"One request, answered by the {name}, from array to array"
    return Summary(title, headings, [*lines, ["all", f"{whole:.2f} us", "100%"]], headings[1:])


def charts(record: Record) -> list[Chart]:
    """Draw the tail of each answerer, a panel for each load: one request in x takes longer than y."""
    found = []
    for load in dict.fromkeys(str(row.case["load"]) for row in record.timed):
        series = [
            Series(
                row.backend,
                [point[0] for point in row.extra["curve"]],
                [point[1] for point in row.extra["curve"]],
                emphasis=bool(row.extra.get("ours")),
            )
            for row in record.timed
            if row.case["load"] == load and "curve" in row.extra
        ]
        if len(series) > _MOST_LINES:
            series = [each for each in series if each.label not in _NOT_DRAWN]
        if series:
            beside = "an idle machine" if load == IDLE else f"other work: {load}"
            where = f"LeNet-5, batch {record.timed[0].case.get('batch', 1)}, {record.gpu or 'on the CPU'}"
            found.append(
                Chart(
                    f"What a caller waits for, {beside}",
                    "one request in x takes longer",
                    "microseconds, from array to array",
                    series,
                    True,
                    True,
                    (where,),
                    x_base=10,
                    named_at_ends=True,
                )
            )
    return found


def _heading(name: str) -> str:
    return "median" if name == "50" else f"{name}%"


def _percentile(name: str, row: Row) -> str:
    value = row.extra.get("percentiles", {}).get(name)
    return "-" if value is None else duration(value)
