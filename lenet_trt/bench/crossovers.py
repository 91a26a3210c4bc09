"""Find the batch size at which one backend overtakes another, as far as the timings tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lenet_trt.bench.record import Row
from lenet_trt.cuda.statistics import Stats


@dataclass(frozen=True)
class Crossover:
    """Hold where the backend ``faster`` overtakes the backend ``slower`` as batches grow.

    At the batch ``before`` the backend ``slower`` still leads, at ``after`` the backend ``faster`` does; both times
    the 95% intervals do not overlap. Between the two batches the medians cross at ``at``, on straight lines between
    the points in logarithmic axes.
    """

    faster: str
    slower: str
    before: int
    after: int
    at: float

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "at": float(f"{self.at:.4g}")}


def crossovers(rows: Iterable[Row]) -> list[Crossover]:
    """Find the crossovers of all pairs of backends whose cases are batches, sorted by batch."""
    curves: dict[str, dict[int, Stats]] = {}
    for row in rows:
        if row.stats is not None and isinstance(batch := row.case.get("batch"), int):
            curves.setdefault(row.backend, {})[batch] = row.stats
    names = list(curves)
    pairs = [(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
    return sorted((each for a, b in pairs for each in of_pair(a, b, curves[a], curves[b])), key=lambda each: each.at)


def of_pair(a: str, b: str, times_a: Mapping[int, Stats], times_b: Mapping[int, Stats]) -> list[Crossover]:
    """Find where one of two backends overtakes the other; a batch at which their intervals overlap decides nothing."""
    batches = sorted(set(times_a) & set(times_b))
    found = []
    last: int | None = None  # the last batch at which one backend led beyond doubt
    for batch in batches:
        now = faster_of(times_a[batch], times_b[batch])
        if now == 0:
            continue
        if last is not None and faster_of(times_a[last], times_b[last]) == -now:
            between = [each for each in batches if last <= each <= batch]
            at = _crossing(between, [times_a[n].median_us for n in between], [times_b[n].median_us for n in between])
            found.append(Crossover(*((a, b) if now < 0 else (b, a)), last, batch, at))
        last = batch
    return found


def faster_of(a: Stats, b: Stats) -> int:
    """Return -1 where a is faster, 1 where b is faster, and 0 where their intervals overlap."""
    return -1 if a.high_us < b.low_us else 1 if b.high_us < a.low_us else 0


def _crossing(batches: Sequence[int], a: Sequence[float], b: Sequence[float]) -> float:
    """Return the batch at which the medians cross; the order of the two changes between the ends of ``batches``."""
    order = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    steps = [i for i in range(len(order) - 1) if order[i] * order[-1] <= 0 < order[i + 1] * order[-1]]
    i = steps[-1]
    share = order[i] / (order[i] - order[i + 1])
    return float(batches[i] * (batches[i + 1] / batches[i]) ** share)
