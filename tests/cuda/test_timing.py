"""Timing by the host's clock: order, warm-up, and how long slow contenders are allowed to take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat

import pytest

from lenet_trt.cuda import timing
from lenet_trt.cuda.timing import TimingPlan, time_on_host_in_turns
from own_clock import OwnClock, own_clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> OwnClock:
    return own_clock(monkeypatch, timing)


def test_a_plan_says_how_many_timings_it_makes() -> None:
    assert TimingPlan(rounds=7, warmup=3, burst=4).timings == 28
    assert TimingPlan().timings >= 50, "medians of fewer are not what the page promises"


def test_twice_the_wait_takes_twice_as_long(clock: OwnClock) -> None:
    calls = {"once": lambda: clock.sleep(0.004), "twice": lambda: clock.sleep(0.008)}
    result = time_on_host_in_turns(calls, TimingPlan(rounds=4, burst=4))
    assert result["once"].count == 16
    assert result["twice"].median_us / result["once"].median_us == pytest.approx(2, rel=0.001)
    assert result["once"].low_us >= 4000


def test_contenders_take_turns_and_each_round_begins_with_another() -> None:
    seen: list[str] = []
    plan = TimingPlan(rounds=3, warmup=0, burst=2, settle=2, tolerance=1e9)
    time_on_host_in_turns({name: (lambda name=name: seen.append(name)) for name in "abc"}, plan)
    timed = "".join(seen)[-18:]
    assert timed == "aabbcc" + "bbccaa" + "ccaabb"


def test_what_becomes_faster_is_warmed_up_until_it_no_longer_does(clock: OwnClock) -> None:
    def becoming_faster() -> Callable[[], None]:
        waits = chain([0.03, 0.03, 0.016, 0.008, 0.004], repeat(0.002))
        return lambda: clock.sleep(next(waits))

    plan = TimingPlan(rounds=3, warmup=0, burst=1, settle=20, tolerance=0.3)
    warm = time_on_host_in_turns({"x": becoming_faster()}, plan)["x"]
    assert warm.settled
    assert warm.warmups >= 4
    assert warm.max_us < 6_000
    cold = time_on_host_in_turns({"x": becoming_faster()}, replace(plan, settle=0))["x"]
    assert cold.max_us > 12_000
    assert not cold.settled, "without a warm-up nobody knows"


def test_a_slow_contender_takes_few_turns_and_the_others_all(clock: OwnClock) -> None:
    plan = TimingPlan(rounds=8, warmup=2, burst=4, settle=2, budget_s=0.3)
    result = time_on_host_in_turns({"slow": lambda: clock.sleep(0.15), "fast": lambda: None}, plan)
    assert 3 <= result["slow"].count <= 4, "a call a turn, until the budget is used"
    assert result["fast"].count == plan.timings


def test_a_failure_is_not_hidden() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        time_on_host_in_turns({"x": broken})
