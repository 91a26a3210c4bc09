"""Statistics of timings: figures that can be worked out by hand, and what holds for any timings."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lenet_trt.cuda.statistics import RESAMPLES, Stats, differ, median_interval, summarize
from lenet_trt.errors import LenetTrtError

TIMES = st.lists(st.floats(0, 1e9), min_size=1, max_size=200)


def test_percentiles_of_known_times() -> None:
    times = [float(value) for value in range(100, -1, -1)]  # 100, 99, ... 0: in no order that helps
    summary = summarize(times)
    assert (summary.median_us, summary.p10_us, summary.p90_us, summary.count) == (50.0, 10.0, 90.0, 101)
    assert (summary.min_us, summary.max_us, summary.outliers) == (0.0, 100.0, 0)


def test_percentiles_between_ranks_are_interpolated() -> None:
    summary = summarize([4.0, 1.0, 2.0])  # ranks 0, 1, 2: the 10th percentile is at 0.2, the 90th at 1.8
    assert summary.median_us == 2.0
    assert summary.p10_us == pytest.approx(1.2)
    assert summary.p90_us == pytest.approx(3.6)


def test_the_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert summarize([1.0, 2.0, 3.0, 10.0]).median_us == 2.5


def test_an_outlier_is_counted_and_kept_and_moves_neither_median_nor_percentiles_far() -> None:
    quiet = summarize([10.0] * 50)
    loud = summarize([10.0] * 49 + [1e6])
    assert loud.median_us == quiet.median_us == loud.p90_us == loud.high_us
    assert (quiet.outliers, loud.outliers) == (0, 1)
    assert loud.max_us == 1e6
    assert loud.samples_us[-1] == 1e6


def test_one_tick_of_a_clock_is_no_outlier() -> None:
    assert summarize([5.024] * 40 + [5.056] * 3).outliers == 0  # the quartiles are the same, and 0.6% is nothing


@given(TIMES)
@example([1.0, 5e-324])  # half of the smaller one is 0
def test_a_summary_is_ordered_and_inside_the_times(times: list[float]) -> None:
    stats = summarize(times)
    for bounds in (
        [min(times), stats.p10_us, stats.median_us, stats.p90_us, max(times)],
        [stats.min_us, stats.low_us, stats.median_us, stats.high_us, stats.max_us],
    ):
        assert all(a <= b or math.isclose(a, b, rel_tol=1e-12) for a, b in pairwise(bounds))
    assert stats.count == len(times)
    assert 0 <= stats.outliers <= len(times) // 2


@given(TIMES, st.randoms())
def test_the_order_of_the_timings_changes_nothing(times: list[float], random: object) -> None:
    shuffled = list(times)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarize(times).without_samples() == summarize(shuffled).without_samples()


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60), st.floats(0.01, 100))
def test_other_units_give_the_same_statistics(times: list[float], factor: float) -> None:
    stats, scaled = summarize(times), summarize([factor * value for value in times])
    for name in ("median_us", "low_us", "high_us", "p10_us", "p90_us"):
        assert getattr(scaled, name) == pytest.approx(factor * getattr(stats, name), rel=1e-9)


@pytest.mark.parametrize("count", [9, 10, 31, 96])
def test_the_interval_is_that_of_plain_resampling(count: int) -> None:
    """Drawing the middle of the resamples gives what drawing whole resamples gives."""
    random = np.random.default_rng(count)
    times = np.sort(random.lognormal(3, 0.3, count))
    plain = np.median(random.choice(times, (RESAMPLES, count)), axis=1)
    low, high = np.percentile(plain, [2.5, 97.5])
    width = high - low
    assert median_interval(times) == pytest.approx((low, high), abs=0.15 * width)


@pytest.mark.parametrize("draw", ["normal", "lognormal", "two humps"])
def test_the_interval_covers_the_true_median_as_often_as_it_says(draw: str) -> None:
    random = np.random.default_rng(7)
    humps = random.choice([10.0, 14.0], (400, 96), p=[0.7, 0.3]) + random.normal(0, 0.5, (400, 96))
    samples = {
        "normal": random.normal(100, 5, (400, 96)),
        "lognormal": random.lognormal(4, 0.5, (400, 96)),
        "two humps": humps,
    }[draw]
    true = {"normal": 100.0, "lognormal": math.exp(4), "two humps": 10.283}[draw]  # 0.7 Phi(2 (x - 10)) = 0.5
    intervals = [median_interval(np.sort(times)) for times in samples]
    covered = sum(low <= true <= high for low, high in intervals) / len(intervals)
    assert 0.91 <= covered <= 0.99


def test_more_timings_make_the_interval_narrower() -> None:
    random = np.random.default_rng(3)
    widths = []
    for count in (20, 200, 2000):
        low, high = median_interval(np.sort(random.normal(50, 5, count)))
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("times", [[], [1.0, math.nan], [math.inf], [-1.0]])
def test_what_is_no_time_is_refused(times: list[float]) -> None:
    with pytest.raises(LenetTrtError):
        summarize(times)


def test_a_difference_counts_only_beyond_the_noise() -> None:
    random = np.random.default_rng(1)
    a, same, tenth = (summarize(list(random.normal(mean, 1, 96))) for mean in (100, 100, 110))
    wide = summarize(list(random.normal(110, 30, 96)))
    assert not differ(a, same)
    assert differ(a, tenth)
    assert differ(tenth, a)
    assert not differ(a, wide), "the spread of one is wider than the distance"
    assert wide.noisy
    assert not a.noisy


@given(TIMES, st.integers(0, 100), st.booleans())
def test_figures_survive_json(times: list[float], warmups: int, settled: bool) -> None:
    stats = summarize(times, warmups, settled)
    back = Stats.from_json(stats.as_json())
    assert back.as_json() == stats.as_json()
    assert back.median_us == pytest.approx(stats.median_us, rel=1e-4)
    assert (back.count, back.warmups, back.settled) == (stats.count, warmups, settled)


@pytest.mark.parametrize(
    "change", [{"median_us": "x"}, {"median_us": math.nan}, {"count": -1}, {"speed": 3}, {"samples_us": 5}]
)
def test_figures_that_are_none_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(LenetTrtError, match="is not timings"):
        Stats.from_json({**summarize([1.0, 2.0]).as_json(), **change})
    with pytest.raises(LenetTrtError, match="is not timings"):
        Stats.from_json({"median_us": 1.0})
