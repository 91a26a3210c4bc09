"""Summarize timings of the same work: the median, its interval, and the spread of the timings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.schema import Count, Duration, checked

RESAMPLES = 10_000
CONFIDENCE = 0.95
_SEED = 20_240_229
# An outlier is further from the quartiles than this many interquartile ranges, and than this share of the median.
_FENCE_RANGES = 3.0
_FENCE_SHARE = 0.02
# Where the middle 80% of the timings spread by more than this share of the median, comparing medians means little.
NOISY_SPREAD = 0.25


@dataclass(frozen=True)
class Stats:
    """Hold the statistics of ``count`` timings of one contender, in microseconds.

    ``low_us`` to ``high_us`` is the 95% bootstrap interval of the median; 80% of the timings lie between ``p10_us``
    and ``p90_us``. ``outliers`` are counted and stay in all other figures. ``warmups``: the number of calls before the
    timings; ``settled``: their times had stopped changing. ``samples_us``: the timings in order, where they are kept.
    """

    median_us: Duration
    low_us: Duration
    high_us: Duration
    p10_us: Duration
    p90_us: Duration
    min_us: Duration
    max_us: Duration
    count: Count
    outliers: Count
    warmups: Count = 0
    settled: bool = True
    samples_us: tuple[Duration, ...] = ()

    @property
    def spread(self) -> float:
        """Return the width of the range that holds the middle 80% of the timings, as a share of the median."""
        return (self.p90_us - self.p10_us) / self.median_us if self.median_us > 0 else 0.0

    @property
    def noisy(self) -> bool:
        """Return whether the timings differ so much that a comparison of this median means little."""
        return self.spread > NOISY_SPREAD

    def without_samples(self) -> Stats:
        """Return the same without the single timings."""
        return replace(self, samples_us=())

    def as_json(self) -> dict[str, Any]:
        """Return plain values, rounded to what a clock can measure; values with their default are left out."""
        values = {name: _rounded(value) if name.endswith("_us") else value for name, value in asdict(self).items()}
        usual = {"warmups": 0, "settled": True, "samples_us": []}
        return {name: value for name, value in values.items() if name not in usual or value != usual[name]}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Stats:
        """Read what ``as_json`` returned.

        Raises:
            LenetTrtError: a figure is missing, unknown or no number.
        """
        said = f"{dict(values)!r:.200}"
        if unknown := set(values) - {field.name for field in fields(Stats)}:
            raise LenetTrtError(f"{said} is not timings (unknown {', '.join(sorted(unknown))})")
        return checked(values, Stats, said, wanted="timings: finite numbers >= 0", fix="measure again")


def summarize(times_us: Sequence[float], warmups: int = 0, settled: bool = True) -> Stats:
    """Compute median, bootstrap interval of the median, percentiles, extremes and outliers of the timings.

    Raises:
        LenetTrtError: there are no times, or a time is no finite number >= 0.
    """
    if not len(times_us):
        raise LenetTrtError("there is nothing to summarize: no timings were made")
    wrong = [value for value in times_us if not (math.isfinite(value) and value >= 0)]
    if wrong:
        raise LenetTrtError(f"{wrong[0]} is not a time: wanted finite microseconds >= 0")
    ordered = np.sort(np.asarray(times_us, np.float64))
    median = float(np.median(ordered))
    low, high = median_interval(ordered)
    p10, p25, p75, p90 = (float(value) for value in np.percentile(ordered, [10, 25, 75, 90]))
    fence = max(_FENCE_RANGES * (p75 - p25), _FENCE_SHARE * median)
    outliers = int(((ordered < p25 - fence) | (ordered > p75 + fence)).sum())
    return Stats(
        median_us=median,
        low_us=low,
        high_us=high,
        p10_us=p10,
        p90_us=p90,
        min_us=float(ordered[0]),
        max_us=float(ordered[-1]),
        count=len(ordered),
        outliers=outliers,
        warmups=warmups,
        settled=settled,
        samples_us=tuple(map(float, times_us)),
    )


def median_interval(ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentile-bootstrap interval of the median of sorted values; equal values give equal intervals.

    Instead of drawing whole resamples, this draws where their middle falls: of n uniform draws the k-th smallest is
    distributed as Beta(k, n + 1 - k), and the value drawn k-th smallest is the one at that share of the sorted values.
    The medians have the distribution that resampling gives, at a cost that does not grow with n.

    Source: order statistics of the uniform distribution are Beta distributed (any textbook on order statistics).
    """
    first, second = _middles(len(ordered))
    medians = ordered[first]
    if len(ordered) % 2 == 0:
        medians = medians / 2 + ordered[second] / 2
    tail = 100 * (1 - CONFIDENCE) / 2
    # Rounding may carry a mean of two values past both of them.
    low, high = np.clip(np.percentile(medians, [tail, 100 - tail]), ordered[0], ordered[-1])
    median = float(np.median(ordered))
    return min(float(low), median), max(float(high), median)


def differ(a: Stats, b: Stats) -> bool:
    """Return whether two medians differ beyond the noise.

    They differ when their bootstrap intervals do not overlap, and the middle 80% of their timings do not: a difference
    that one run may show by chance does not count. A time that jumps between two values has wide timings, and is still
    longer than one below them all.
    """
    first, second = sorted((a, b), key=lambda stats: stats.median_us)
    return first.high_us < second.low_us and first.p90_us < second.p10_us


@lru_cache(maxsize=32)
def _middles(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the places of the middle of each resample of n values, and of the next in order: the same for any values."""
    random = np.random.default_rng(_SEED)
    middle = (n + 1) // 2
    share = random.beta(middle, n + 1 - middle, RESAMPLES)
    if n % 2:
        return _places(share, n), _places(share, n)
    after = share + (1 - share) * random.beta(1, n - middle, RESAMPLES)
    return _places(share, n), _places(after, n)


def _places(share: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    return np.minimum((share * n).astype(np.int64), n - 1)


def _rounded(value: Any) -> Any:
    """Round to five significant digits: more than any clock here measures."""
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}")
