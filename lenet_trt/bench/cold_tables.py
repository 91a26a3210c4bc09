"""Make the tables and pictures of the suite ``cold`` from its record, and what each remedy saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.cuda.statistics import Stats, differ
from lenet_trt.draw.chart import Chart, Series

OURS = "lenet5 kernel"
OURS_GRAPH = "lenet5 kernel, CUDA graph"
OURS_EARLY = "lenet5 kernel, context begun first"
GRAPH = "graph runtime"
TORCH = "torch eager"
# The phases as pictures and tables show them, in order.
STEPS = {
    "Python and imports": ("python", "import"),
    "driver initialised": ("driver",),
    "context made": ("context",),
    "libraries, network read": ("libraries", "load"),
    "kernel compiled, or found on disk": ("compile",),
    "machine code and weights to the GPU": ("module", "weights"),
    "made ready for the batch": ("prepare",),
    "first run": ("first",),
}
_HEADINGS = ("Python, imports", "driver", "context", "network", "compile", "to the GPU", "made ready", "first run")
# Stage that a process has reached before the request -> the key of the answer's time in a row.
STAGES = {
    "nothing": None,
    "preloaded": "preloaded",
    "made ready": "ready",
    "ran once": "second",
    "ran often": "steady",
}
_STAGE_REMEDIES = {
    "preload (imports and context before the request)": "preloaded",
    "make ready (network, kernels and graph as well)": "made ready",
    "warm up (one run as well)": "ran once",
}
# Fewer processes say nothing of the spread.
_LEAST_PROCESSES = 3
_US_PER_S = 1e6


@dataclass(frozen=True)
class Remedy:
    """Compare the time of an answer without and with a remedy.

    ``stage``: both times are from the same processes, at two moments; otherwise they are from two configurations.
    ``sure``: the difference is larger than the noise, or has the same sign in every process.
    """

    remedy: str
    backend: str
    without: Stats
    with_it: Stats
    stage: bool = False

    @property
    def sure(self) -> bool:
        if min(self.without.count, self.with_it.count) < _LEAST_PROCESSES:
            return False
        pairs = list(zip(self.without.samples_us, self.with_it.samples_us, strict=False))
        if not self.stage or not pairs:
            return differ(self.without, self.with_it)
        return all(a > b for a, b in pairs) or all(a < b for a, b in pairs)

    @property
    def saves_us(self) -> float:
        """Return the time saved; it is negative where the remedy costs time."""
        return self.without.median_us - self.with_it.median_us

    def as_json(self) -> dict[str, Any]:
        """Return plain values: medians and their intervals."""
        return {
            "remedy": self.remedy,
            "backend": self.backend,
            "saves_us": float(f"{self.saves_us:.5g}"),
            "sure": self.sure,
            "without": self.without.without_samples().as_json(),
            "with": self.with_it.without_samples().as_json(),
        }

    def saved(self) -> str:
        """Say how much it saves or costs."""
        if not self.sure:
            return "no difference beyond the noise"
        return f"{'saves' if self.saves_us >= 0 else 'costs'} {duration(abs(self.saves_us))}"


def columns(record: Record) -> list[Column]:
    """Return the columns: a row is a configuration, with the first answer, its phases, and later answers."""
    made = [
        Column("backend", lambda row: row.backend, left=True),
        Column("loading", lambda row: str(row.case.get("loading", "")), left=True),
        Column("caches", lambda row: str(row.case.get("caches", "")), left=True),
        Column("first answer", lambda row: duration(row.stats.median_us) if row.stats else "-"),
        Column("95% interval", _interval),
    ]
    for heading, names in zip(_HEADINGS, STEPS.values(), strict=True):
        made.append(Column(heading, partial(_step_text, names)))
    made.append(Column("second run", lambda row: _time(row, "second")))
    made.append(Column("steady", lambda row: _time(row, "steady")))
    made.append(Column("GPU memory", _memory))
    return made


def remedies(rows: Sequence[Row]) -> list[Remedy]:
    """Return every remedy whose effect two measured configurations, or two stages of one, show."""
    return list(_remedies([row for row in rows if row.stats is not None]))


def _remedies(rows: Sequence[Row]) -> Iterator[Remedy]:
    for row in rows:
        if row.case["loading"] in ("lazy", "") and row.case["caches"] in ("filled", ""):
            for name, before in _STAGE_REMEDIES.items():
                yield Remedy(name, row.backend, stage_time(row, "nothing"), stage_time(row, before), stage=True)
    for row in rows:
        usual = _usual(rows, row.backend)
        if usual is None or row is usual or row.stats is None or usual.stats is None:
            continue
        if row.case["caches"] == "empty":
            yield _remedy("keep compiled kernels on disk", row, row.stats, usual.stats)
        if row.case["loading"] == "eager":
            yield _remedy("load lazily (CUDA_MODULE_LOADING=LAZY)", row, row.stats, usual.stats)
    plain_start, early = _usual(rows, OURS), _usual(rows, OURS_EARLY)
    if plain_start is not None and early is not None:
        named = "make the context while importing (begin_context)"
        yield _remedy(named, plain_start, stage_time(plain_start, "nothing"), stage_time(early, "nothing"))
    for plain, graph in ((OURS, OURS_GRAPH), (TORCH, GRAPH)):
        without, with_it = _usual(rows, plain), _usual(rows, graph)
        if without is not None and with_it is not None:
            for answer, before in (("later answers", "ran often"), ("the first answer", "nothing")):
                named = f"CUDA graph, {answer} ({graph} instead of {plain})"
                yield _remedy(named, without, stage_time(without, before), stage_time(with_it, before))


def _remedy(name: str, row: Row, without: Stats, with_it: Stats) -> Remedy:
    return Remedy(name, row.backend, without, with_it)


def stage_time(row: Row, name: str) -> Stats:
    """Return the time of an answer when the process has reached this stage before the request; the row has timings."""
    key = STAGES[name]
    if key is None:
        assert row.stats is not None
        return row.stats
    return Stats.from_json(row.extra[key])


def summaries(record: Record) -> list[Summary]:
    """Return what each remedy saves, and the first run of torch layer by layer."""
    found = [
        [r.backend, r.remedy, duration(r.without.median_us), duration(r.with_it.median_us), r.saved()]
        for r in remedies(record.rows)
    ]
    layers = [
        [row.backend, name, duration(us)]
        for row in record.timed
        if row is _usual(record.timed, row.backend)
        for name, us in sorted(row.extra.get("first_by_layer_us", {}).items(), key=lambda item: -item[1])[:4]
    ]
    made = []
    if found:
        headings = ("backend", "remedy", "without it", "with it", "effect")
        made.append(Summary("What each remedy saves", headings, found, headings[2:4]))
    if layers:
        made.append(
            Summary("The slowest layers of the first run", ("backend", "layer", "first run"), layers, ("first run",))
        )
    return made


def charts(record: Record) -> list[Chart]:
    """Draw where the time of the first answer goes, and the time of an answer after each stage."""
    timed = [row for row in record.rows if row.stats is not None]
    if not timed:
        return []
    names = [_name(row) for row in timed]
    bars = []
    for label, keys in STEPS.items():
        values = [step_us(row, keys) for row in timed]
        if any(values):
            seconds = [None if us is None else us / _US_PER_S for us in values]
            bars.append(Series(label, names, seconds, "bars", emphasis=label == "first run", group="phases"))
    lines = []
    for row in (row for row in timed if row is _usual(timed, row.backend)):
        points = [stage_time(row, name) for name in STAGES]
        lines.append(
            Series(
                row.backend,
                list(STAGES),
                [point.median_us / 1e3 for point in points],
                emphasis=row.backend == OURS,
                low=[point.low_us / 1e3 for point in points],
                high=[point.high_us / 1e3 for point in points],
            )
        )
    return [
        Chart("The first answer, from nothing", "seconds", "", bars, horizontal=True),
        Chart("An answer, by what went before it", "the process before it is asked", "ms", lines, y_log=True),
    ]


def step_us(row: Row, phases: Sequence[str]) -> float | None:
    """Add the medians of these phases; return None where the backend has none of them."""
    found: Mapping[str, Any] = row.extra.get("phases", {})
    values = [found[name]["median_us"] for name in phases if name in found]
    return sum(values) if values else None


def _usual(rows: Sequence[Row], backend: str) -> Row | None:
    """Return the row of the backend's usual start: lazy loading, filled caches."""
    usual = (r for r in rows if r.backend == backend and r.stats is not None)
    return next((r for r in usual if r.case["loading"] != "eager" and r.case["caches"] != "empty"), None)


def _name(row: Row) -> str:
    told = [row.backend]
    if row.case["loading"] == "eager":
        told.append("eager loading")
    if row.case["caches"] == "empty":
        told.append("caches empty")
    return ", ".join(told)


def _interval(row: Row) -> str:
    return f"{duration(row.stats.low_us)} to {duration(row.stats.high_us)}" if row.stats else "-"


def _step_text(phases: Sequence[str], row: Row) -> str:
    found = step_us(row, phases)
    return "-" if found is None else duration(found)


def _time(row: Row, name: str) -> str:
    return duration(row.extra[f"{name}_us"]) if f"{name}_us" in row.extra else "-"


def _memory(row: Row) -> str:
    return f"{row.extra['used_mib']} MiB" if "used_mib" in row.extra else "-"
