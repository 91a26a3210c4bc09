"""Time work: several contenders take turns in one run, by CUDA events or by the host's clock.

Times that are compared come from one call of ``time_in_turns`` (or ``time_on_host_in_turns``), so that drift (clocks,
temperature) affects all of them equally. The timed work is given as plain functions that put it into a stream, so this
module needs neither torch nor TensorRT.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from lenet_trt.cuda.driver import ask, driver
from lenet_trt.cuda.statistics import Stats, summarize

Call: TypeAlias = Callable[[], object]

# The stream is held this many times as long as the last measured submission.
_HOLD_FACTOR = 1.5
_HOLD_MARGIN_US = 50.0
# A turn of a slow contender is cut to about this long.
_TURN_S = 0.1
# Even the slowest contender gets this many timings: fewer say nothing of the spread.
_LEAST_TIMINGS = 3


@dataclass(frozen=True)
class Timed:
    """Describe what to time: the same work on one input set after another.

    ``hold`` (the usual case) keeps the GPU busy until everything is in the stream, so that the result does not contain
    the host's time. Without it the stream is empty before each timing, and the host's time to submit the work counts.
    """

    calls: Sequence[Call]
    hold: bool = True


@dataclass(frozen=True)
class TimingPlan:
    """Describe how often to time: each of ``rounds`` turns has ``warmup`` untimed calls and ``burst`` timed calls.

    Before that, turns are taken and not counted until the medians of two in a row are within ``tolerance`` of each
    other, at most ``settle`` turns. A contender that has used ``budget_s`` seconds takes no more turns once it has a
    few timings; slow contenders also take shorter turns.
    """

    rounds: int = 12
    warmup: int = 2
    burst: int = 8
    settle: int = 8
    tolerance: float = 0.02
    budget_s: float = 20.0

    @property
    def timings(self) -> int:
        """Return the number of timings of each contender, unless it is slow."""
        return self.rounds * self.burst


@dataclass(frozen=True)
class _Turn:
    """Describe one contender's turn; ``run`` makes ``warmup`` untimed calls, then ``burst`` timed ones."""

    run: Callable[[int, int], list[float]]
    warmup: int
    burst: int

    def take(self) -> list[float]:
        """Return the microseconds of each timed call."""
        return self.run(self.warmup, self.burst)


def time_in_turns(
    contenders: Mapping[str, Timed],
    stream: int,
    hold: Callable[[float], object],
    plan: TimingPlan | None = None,
) -> dict[str, Stats]:
    """Time all contenders round-robin on the GPU; each round begins with another contender.

    The rotation of input sets continues from one contender to the next, so that no contender finds in the cache what
    the contender before it read. ``stream``: the raw handle of the stream into which the calls put their work.
    ``hold(us)``: puts work into the stream that keeps the GPU busy for ``us`` microseconds.

    Raises:
        LenetTrtError: the work of a contender failed.
    """
    plan = plan or TimingPlan()
    position = 0

    def turn(name: str, timed: Timed, submit_us: float, warmup: int, burst: int) -> list[float]:
        nonlocal position
        order = [timed.calls[(position + i) % len(timed.calls)] for i in range(warmup + burst)]
        position += warmup + burst
        if timed.hold:
            hold(submit_us * (warmup + burst) * _HOLD_FACTOR + _HOLD_MARGIN_US)
        for call in order[:warmup]:
            call()
        for index, call in enumerate(order[warmup:]):
            if not timed.hold:
                _wait(stream, name)
            _record(events[2 * index], stream)
            call()
            _record(events[2 * index + 1], stream)
        _wait(stream, name)
        return [_elapsed_us(*events[2 * i : 2 * i + 2]) for i in range(burst)]

    def prepared(name: str, timed: Timed) -> _Turn:
        for call in timed.calls:
            call()
        _wait(stream, name)
        submit_us, call_s = _submission(name, timed, stream, plan)
        warmup, burst = _lengths(plan, call_s)
        return _Turn(lambda w, b: turn(name, timed, submit_us, w, b), warmup, burst)

    with ExitStack() as cleanup:
        events = [_event() for _ in range(2 * plan.burst)]
        for event in events:
            cleanup.callback(driver().cuEventDestroy, event)
        return _round_robin({name: prepared(name, timed) for name, timed in contenders.items()}, plan)


def time_on_host_in_turns(contenders: Mapping[str, Call], plan: TimingPlan | None = None) -> dict[str, Stats]:
    """Time calls that are done when they return, by the host's clock: round-robin, as ``time_in_turns`` does."""
    plan = plan or TimingPlan()

    def turn(call: Call, warmup: int, burst: int) -> list[float]:
        for _ in range(warmup):
            call()
        times = []
        for _ in range(burst):
            begin = time.perf_counter_ns()
            call()
            times.append((time.perf_counter_ns() - begin) / 1e3)
        return times

    def prepared(call: Call) -> _Turn:
        call()
        (once_us,) = turn(call, 0, 1)
        return _Turn(lambda w, b: turn(call, w, b), *_lengths(plan, once_us * 1e-6))

    return _round_robin({name: prepared(call) for name, call in contenders.items()}, plan)


def _round_robin(turns: Mapping[str, _Turn], plan: TimingPlan) -> dict[str, Stats]:
    """Let each contender settle, then take the turns."""
    used = dict.fromkeys(turns, 0.0)
    settled = {name: _settle(turn, plan) for name, turn in turns.items()}
    times: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for index in range(plan.rounds):
        first = index % max(len(names), 1)
        for name in names[first:] + names[:first]:
            if used[name] > plan.budget_s and len(times[name]) >= _LEAST_TIMINGS:
                continue
            begin = time.perf_counter()
            times[name] += turns[name].take()
            used[name] += time.perf_counter() - begin
    return {name: summarize(values, *settled[name]) for name, values in times.items()}


def _settle(turn: _Turn, plan: TimingPlan) -> tuple[int, bool]:
    """Take turns until two in a row have the same median; return the number of calls, and whether they settled."""
    begin = time.perf_counter()
    calls = 0
    before = None
    for _ in range(plan.settle):
        median = statistics.median(turn.take())
        calls += turn.warmup + turn.burst
        if before is not None and abs(median - before) <= plan.tolerance * before:
            return calls, True
        before = median
        if time.perf_counter() - begin > plan.budget_s / 4:
            break
    return calls, False


def _lengths(plan: TimingPlan, call_s: float) -> tuple[int, int]:
    """Return the numbers of untimed and timed calls of a turn, for a contender with this time for a call."""
    fitting = int(_TURN_S / call_s) if call_s > 0 else plan.burst
    burst = max(1, min(plan.burst, fitting))
    return (plan.warmup if burst == plan.burst else 0), burst


def _submission(name: str, timed: Timed, stream: int, plan: TimingPlan) -> tuple[float, float]:
    """Return the host's time to put a call into the stream, and the time until it is done, in microseconds."""
    calls = 1
    while True:
        begin = time.perf_counter()
        for index in range(calls):
            timed.calls[index % len(timed.calls)]()
        submitted = time.perf_counter()
        _wait(stream, name)
        done_s = time.perf_counter() - begin
        if calls > 1 or done_s > _TURN_S:
            return (submitted - begin) * 1e6 / calls, done_s / calls
        calls = plan.warmup + plan.burst


def _event() -> Any:
    return ask(driver().cuEventCreate(0), "cannot make a CUDA event")


def _record(event: Any, stream: int) -> None:
    ask(driver().cuEventRecord(event, stream), "cannot record a CUDA event")


def _wait(stream: int, name: str) -> None:
    ask(driver().cuStreamSynchronize(stream), f"the work of {name} failed")


def _elapsed_us(begin: Any, end: Any) -> float:
    return float(ask(driver().cuEventElapsedTime(begin, end), "cannot read a CUDA event")) * 1e3


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch off the garbage collector: freed GPU memory breaks the capture of a graph, and a pause spoils a timing."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
