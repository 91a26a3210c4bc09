"""Tune kernels: time their variants on the GPU here, and keep which are faster than the declared choice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from lenet_trt import __version__
from lenet_trt.cuda.compile import compile_for_launch
from lenet_trt.cuda.driver import context_lost, current_context
from lenet_trt.cuda.machine import Machine, machine_of
from lenet_trt.cuda.statistics import Stats
from lenet_trt.cuda.tuned import choices_for
from lenet_trt.cuda.tuning_file import FORMAT, TimedCall, Times, Tuning, declaration_sha256, read_tuning, write_tuning
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.variants import Variant
from lenet_trt.tune.decide import beats, challenger, choices
from lenet_trt.tune.ladders import Ladder, free_axis, ladders, ladders_in_turns
from lenet_trt.tune.timing import AGAIN, FIRST, VariantBench, drawn_inputs

_PROGRESS_S = 5.0
_MOST_COMPILERS = 16  # more would only disturb the thread that times


@dataclass
class Result:
    """Hold what a run of ``tune`` found: the kernels' choices, how many ladders there are, and what went wrong."""

    tunings: list[Tuning]
    ladders: int
    timed: int
    seconds: float
    problems: list[str] = field(default_factory=list)


@dataclass
class _Found:
    choices: list[TunedChoice] = field(default_factory=list)
    calls: list[TimedCall] = field(default_factory=list)


def tune(
    kernels: Sequence[Kernel],
    seconds: float | None,
    say: Callable[[str], None],
    calls: Mapping[str, Sequence[Bound]] | None = None,
) -> Result:
    """Time the kernels' variants for at most so many seconds (None: all), and keep the choices in the cache.

    ``calls``: those of a model by kernel, in place of the declared examples.

    Kernels take turns, so that each has its largest examples timed where the time does not suffice for all. What was
    found before, of examples that are not timed now, is kept.

    Raises:
        LenetTrtError: there is no GPU, the cache cannot be written, or the GPU stopped.
    """
    begin = time.monotonic()
    context = current_context()
    machine = machine_of(context.device)
    assert machine is not None, "there is a context"
    planned = list(
        ladders_in_turns(
            [ladders(kernel, context.sm, None if calls is None else calls[kernel.name]) for kernel in kernels]
        )
    )
    bench, problems = VariantBench(), list[str]()
    found = {kernel.name: _Found() for kernel in kernels}
    done, told = 0, begin
    for ladder, ready in _compiled(planned, context.sm):
        now = time.monotonic()
        if seconds is not None and now - begin > seconds:
            break
        if now - told > _PROGRESS_S:
            told = now
            say(f"{done} of {len(planned)} ladders, {now - begin:.0f} s: {ladder.kernel.name} {ladder}")
        try:
            ready()
            _time_ladder(bench, ladder, found[ladder.kernel.name], begin + seconds if seconds else None)
        except LenetTrtError as error:
            problems.append(f"{ladder.kernel.name} {ladder}: {error}")
            if lost := context_lost():
                raise LenetTrtError(
                    f"{problems[-1]}; nothing more can run in this process ({lost}): `lenet-trt check "
                    f"{ladder.kernel.name}` says more. Nothing was kept"
                ) from error
        done += 1
    tunings = [_kept(kernel, machine, found[kernel.name]) for kernel in kernels if found[kernel.name].calls]
    choices_for.cache_clear()
    return Result(tunings, len(planned), done, time.monotonic() - begin, problems)


def _time_ladder(bench: VariantBench, ladder: Ladder, found: _Found, deadline: float | None) -> None:
    """Time the calls of a ladder until the deadline, and add what follows."""
    sm, sizes = bench.context.sm, bench.context.sizes
    drawn = drawn_inputs(ladder.rungs[0])
    timed: list[int] = []
    tuned: dict[int, str] = {}
    for bound in ladder.rungs:
        if deadline is not None and time.monotonic() > deadline and timed:
            break
        declared = bound.variant(sm, sizes)
        times = bench.time(bound, bound.runnable(sm), drawn, FIRST)
        winner = challenger(times, declared.name)
        if winner is not None:
            again = bench.time(bound, [declared, bound.kernel.variant(winner)], drawn, AGAIN)
            times |= again
            winner = winner if beats(again[winner], again[declared.name]) else None
        size = bound.axes[ladder.free]
        timed.append(size)
        if winner is not None:
            tuned[size] = winner
        found.calls.append(_timed_call(ladder, bound, declared.name, winner or declared.name, times))
    found.choices += choices(ladder, tuned, timed, lambda size: ladder.call(size).variant(sm, sizes).name)


def _timed_call(ladder: Ladder, bound: Bound, declared: str, tuned: str, times: Mapping[str, Stats]) -> TimedCall:
    rounded = {
        name: Times(*(round(us, 3) for us in (stats.median_us, stats.low_us, stats.high_us)))
        for name, stats in times.items()
    }
    return TimedCall(bound.types.name, ladder.attributes, dict(bound.axes), declared, tuned, rounded)


def _compiled(planned: Sequence[Ladder], sm: int) -> Iterator[tuple[Ladder, Callable[[], None]]]:
    """Yield each ladder with a function that waits until it is compiled; later ladders are compiled meanwhile."""
    with ThreadPoolExecutor(min(_MOST_COMPILERS, os.cpu_count() or 1)) as pool:
        waiting = [(ladder, [pool.submit(_compile, *build, sm) for build in _builds(ladder, sm)]) for ladder in planned]
        try:
            for ladder, futures in waiting:
                yield ladder, partial(_wait, futures)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _builds(ladder: Ladder, sm: int) -> Iterable[tuple[Bound, Variant]]:
    """Return a call for each variant that runs on the ladder."""
    found: dict[str, tuple[Bound, Variant]] = {}
    for bound in ladder.rungs:
        for variant in bound.runnable(sm):
            found.setdefault(variant.name, (bound, variant))
    return found.values()


def _compile(bound: Bound, variant: Variant, sm: int) -> None:
    for part in variant.parts:
        compile_for_launch(bound.specialized, part, sm)


def _wait(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        future.result()


def _kept(kernel: Kernel, machine: Machine, found: _Found) -> Tuning:
    """Write what was found of a kernel, with what an earlier run found of other examples."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    tuning = Tuning(
        *(FORMAT, __version__, machine, kernel.name, declaration_sha256(kernel), now),
        *(tuple(found.choices), tuple(found.calls)),
    )
    with suppress(LenetTrtError):  # none is there, or it does not count any more
        old = read_tuning(machine.tuning_path(kernel.name), kernel, machine)
        tuning = merged(old, tuning, free_axis(kernel) or "")
    write_tuning(tuning)
    return tuning


def merged(old: Tuning, new: Tuning, free: str) -> Tuning:
    """Return what is new, and of the old what is about other examples; ``free``: the axis that differs on a ladder."""

    def example(of: TunedChoice | TimedCall) -> tuple[object, ...]:
        axes = {name: size for name, size in of.axes.items() if name != free}
        return of.types, tuple(sorted(of.attributes.items())), tuple(sorted(axes.items()))

    known = {example(call) for call in new.calls}
    return replace(
        new,
        choices=(*new.choices, *(choice for choice in old.choices if example(choice) not in known)),
        calls=(*new.calls, *(call for call in old.calls if example(call) not in known)),
    )
