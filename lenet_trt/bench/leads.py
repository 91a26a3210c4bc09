"""Find who is fastest at which batch in a sweep, and from which batch on a GPU beats the CPU.

One backend is faster than another only where their intervals lie apart; where they overlap, neither is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from lenet_trt.bench.crossovers import faster_of, of_pair
from lenet_trt.bench.record import Row
from lenet_trt.bench.tables import Summary, duration
from lenet_trt.cuda.statistics import Stats

# Batch -> timings.
Curve: TypeAlias = Mapping[int, Stats]


def sweep_summaries(rows: Iterable[Row]) -> Iterator[Summary]:
    """Yield who is fastest at which batch, and where each backend on the GPU is faster than all on the CPU."""
    timed = [(row, row.stats) for row in rows if row.stats is not None]
    by_precision = {
        precision: _curves((r, s) for r, s in timed if _precision(r) == precision)
        for precision in dict.fromkeys(_precision(row) for row, _ in timed)
    }
    host, device = (
        _curves((r, s) for r, s in timed if r.extra.get("place", "GPU") == place and _precision(r) == "fp32")
        for place in ("CPU", "GPU")
    )
    if host and device:
        by_precision["fp32 on the CPU"] = host
    lines = [[of_what, *line] for of_what, curves in by_precision.items() for line in _fastest(curves)]
    if lines:
        yield Summary("Fastest backend", ("precision", "batch", "backend", "time"), lines)
    if not host or not device:
        return
    best = _envelope(host)
    order = sorted(device.items(), key=lambda item: -_share_below(item[1], best))
    found = [[name, where_faster(curve, best)] for name, curve in order]
    yield Summary("Faster than every backend on the CPU, in fp32", ("backend on the GPU", "where"), found)


def _precision(row: Row) -> str:
    return str(row.extra.get("precision", "fp32"))


def _share_below(curve: Curve, other: Curve) -> float:
    common = set(curve) & set(other)
    return sum(faster_of(curve[batch], other[batch]) < 0 for batch in common) / max(len(common), 1)


def _curves(timed: Iterable[tuple[Row, Stats]]) -> dict[str, dict[int, Stats]]:
    found: dict[str, dict[int, Stats]] = {}
    for row, stats in timed:
        if isinstance(batch := row.case["batch"], int):
            found.setdefault(row.backend, {})[batch] = stats
    return {name: dict(sorted(curve.items())) for name, curve in found.items()}


def _fastest(curves: Mapping[str, Curve]) -> Iterator[list[str]]:
    """Yield batches, backend and times of each span of batches that one backend leads."""
    leading = leaders(curves)
    for name, group in groupby(leading, key=lambda batch: leading[batch]):
        batches = list(group)
        taken = list(dict.fromkeys(duration(curves[name][batch].median_us) for batch in (batches[0], batches[-1])))
        yield [_span(batches), name, " to ".join(taken)]


def leaders(curves: Mapping[str, Curve]) -> dict[int, str]:
    """Return who leads at each batch: the leader of the batch before, until another one is faster beyond doubt."""
    found: dict[int, str] = {}
    leader = ""
    for batch in sorted({batch for curve in curves.values() for batch in curve}):
        here = {name: curve[batch] for name, curve in curves.items() if batch in curve}
        best = min(here, key=lambda name: here[name].median_us)
        if leader not in here or faster_of(here[best], here[leader]) < 0:
            leader = best
        found[batch] = leader
    return found


def _envelope(curves: Mapping[str, Curve]) -> dict[int, Stats]:
    """Return the best time at each batch."""
    batches = sorted({batch for curve in curves.values() for batch in curve})
    times = {batch: [curve[batch] for curve in curves.values() if batch in curve] for batch in batches}
    return {batch: min(found, key=lambda stats: stats.median_us) for batch, found in times.items()}


def where_faster(curve: Curve, other: Curve) -> str:
    """Say where a curve lies below another one beyond doubt."""
    batches = sorted(set(curve) & set(other))
    order = {batch: faster_of(curve[batch], other[batch]) for batch in batches}
    below = [batch for batch in batches if order[batch] < 0]
    above = [batch for batch in batches if order[batch] > 0]
    if not below:
        return "at no batch measured"
    if len(below) == len(batches):
        return "at every batch measured"
    if above and max(above) < min(below):
        (crossing,) = of_pair("it", "other", curve, other)
        return f"from a batch of about {crossing.at:.0f} on"
    if above and max(below) < min(above):
        (crossing,) = of_pair("it", "other", curve, other)
        return f"up to a batch of about {crossing.at:.0f}"
    if 2 * len(below) > len(batches):
        return f"at every batch measured but {_runs([batch for batch in batches if order[batch] >= 0], batches)}"
    return f"at {_runs(below, batches)} alone"


def _runs(chosen: Sequence[int], of_all: Sequence[int]) -> str:
    """Return the chosen batches as text, those that follow one another drawn together."""
    runs = [list(group) for is_chosen, group in groupby(of_all, key=lambda batch: batch in chosen) if is_chosen]
    texts = [_span(run) for run in runs]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _span(batches: Sequence[int]) -> str:
    return f"{batches[0]} to {batches[-1]}" if len(batches) > 1 else str(batches[0])
