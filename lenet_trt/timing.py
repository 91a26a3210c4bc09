"""How long work takes on the GPU: several contenders, timed by CUDA events, taking turns in one run.

Times that are compared come from one call of ``time_in_turns``: whatever drifts (clocks, temperature) then hits all
of them alike. What is timed is given as plain functions that put their work into a stream, so this module needs
neither torch nor TensorRT.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from lenet_trt.device import ask, driver
from lenet_trt.errors import LenetTrtError

Call: TypeAlias = Callable[[], object]

# How much longer the stream is held than submitting took when it was last measured.
_HOLD_FACTOR = 1.5
_HOLD_MARGIN_US = 50.0


@dataclass(frozen=True)
class Summary:
    """The median of ``count`` timings, and between which times eight tenths of them are."""

    median_us: float
    p10_us: float
    p90_us: float
    count: int


@dataclass(frozen=True)
class Timed:
    """What to time: the same work on one input set after another.

    ``hold`` (the usual case) keeps the GPU busy until everything is in the stream, so that the host's own
    time is not in the result. Without it the stream is empty before each timing, and what the host takes
    to put the work there counts.
    """

    calls: Sequence[Call]
    hold: bool = True


@dataclass(frozen=True)
class Plan:
    """How often to time: in each of ``rounds`` turns, ``warmup`` calls untimed and then ``burst`` calls timed."""

    rounds: int = 12
    warmup: int = 2
    burst: int = 8

    @property
    def timings(self) -> int:
        """How many timings of each contender this makes."""
        return self.rounds * self.burst


def summarize(times_us: Sequence[float]) -> Summary:
    """The median and the 10th and 90th percentile.

    Raises:
        LenetTrtError: there are no times, or one is no finite positive number.
    """
    if not times_us:
        raise LenetTrtError("there is nothing to summarize: no timings were made")
    wrong = [value for value in times_us if not (math.isfinite(value) and value >= 0)]
    if wrong:
        raise LenetTrtError(f"{wrong[0]} is no time: wanted finite microseconds >= 0")
    ordered = sorted(times_us)
    return Summary(statistics.median(ordered), _percentile(ordered, 10), _percentile(ordered, 90), len(ordered))


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """Interpolate linearly between the two nearest ranks."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def time_in_turns(
    contenders: Mapping[str, Timed],
    stream: int,
    hold: Callable[[float], object],
    plan: Plan | None = None,
) -> dict[str, Summary]:
    """Time all contenders round-robin; each round begins with another one.

    The input sets go on from one contender to the next, so that none finds in the cache what the one before it read.
    ``stream`` is the raw handle of the stream that the calls put their work into; ``hold(us)`` puts something
    into it that keeps the GPU busy for that many microseconds.

    Raises:
        LenetTrtError: the work of a contender failed.
    """
    plan = plan or Plan()
    events = [_event() for _ in range(2 * plan.burst)]
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    position = 0
    with ExitStack() as cleanup:
        for event in events:
            cleanup.callback(driver().cuEventDestroy, event)
        submit_us = {name: _submission_us(name, timed, stream, plan) for name, timed in contenders.items()}
        for turn in range(plan.rounds):
            first = turn % max(len(names), 1)
            for name in names[first:] + names[:first]:
                timed = contenders[name]
                order = [timed.calls[(position + i) % len(timed.calls)] for i in range(plan.warmup + plan.burst)]
                position += plan.warmup + plan.burst
                if timed.hold:
                    hold(submit_us[name] * _HOLD_FACTOR + _HOLD_MARGIN_US)
                for call in order[: plan.warmup]:
                    call()
                for index, call in enumerate(order[plan.warmup :]):
                    if not timed.hold:
                        _wait(stream, name)
                    _record(events[2 * index], stream)
                    call()
                    _record(events[2 * index + 1], stream)
                _wait(stream, name)
                times[name] += [_elapsed_us(*events[2 * i : 2 * i + 2]) for i in range(plan.burst)]
    return {name: summarize(values) for name, values in times.items()}


def _submission_us(name: str, timed: Timed, stream: int, plan: Plan) -> float:
    """How long the host takes to put one turn into the stream; everything has run once before that."""
    for call in timed.calls:
        call()
    _wait(stream, name)
    begin = time.perf_counter()
    for index in range(plan.warmup + plan.burst):
        timed.calls[index % len(timed.calls)]()
    submitted_us = (time.perf_counter() - begin) * 1e6
    _wait(stream, name)
    return submitted_us


def _event() -> Any:
    return ask(driver().cuEventCreate(0), "cannot make a CUDA event")


def _record(event: Any, stream: int) -> None:
    ask(driver().cuEventRecord(event, stream), "cannot record a CUDA event")


def _wait(stream: int, name: str) -> None:
    ask(driver().cuStreamSynchronize(stream), f"the work of {name} failed")


def _elapsed_us(begin: Any, end: Any) -> float:
    return float(ask(driver().cuEventElapsedTime(begin, end), "cannot read a CUDA event")) * 1e3
