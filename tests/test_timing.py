"""Statistics of timings: medians and percentiles that can be worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.timing import Plan, summarize


def test_percentiles_of_known_times() -> None:
    times = [float(value) for value in range(100, -1, -1)]  # 100, 99, ... 0: in no order that helps
    summary = summarize(times)
    assert (summary.median_us, summary.p10_us, summary.p90_us, summary.count) == (50.0, 10.0, 90.0, 101)


def test_percentiles_between_ranks_are_interpolated() -> None:
    summary = summarize([4.0, 1.0, 2.0])  # ranks 0, 1, 2: the 10th percentile is at 0.2, the 90th at 1.8
    assert summary.median_us == 2.0
    assert summary.p10_us == pytest.approx(1.2)
    assert summary.p90_us == pytest.approx(3.6)


def test_the_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert summarize([1.0, 2.0, 3.0, 10.0]).median_us == 2.5


def test_one_outlier_moves_neither_median_nor_percentiles_far() -> None:
    quiet = summarize([10.0] * 50)
    loud = summarize([10.0] * 49 + [1e6])
    assert loud.median_us == quiet.median_us == loud.p90_us


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_a_summary_is_ordered_and_inside_the_times(times: list[float]) -> None:
    summary = summarize(times)
    bounds = [min(times), summary.p10_us, summary.median_us, summary.p90_us, max(times)]
    assert all(a <= b or math.isclose(a, b, rel_tol=1e-12) for a, b in pairwise(bounds))
    assert summary.count == len(times)


@pytest.mark.parametrize("times", [[], [1.0, math.nan], [math.inf], [-1.0]])
def test_what_is_no_time_is_refused(times: list[float]) -> None:
    with pytest.raises(LenetTrtError):
        summarize(times)


def test_a_plan_says_how_many_timings_it_makes() -> None:
    assert Plan(rounds=7, warmup=3, burst=4).timings == 28
    assert Plan().timings >= 50, "medians of fewer are not what the page promises"
