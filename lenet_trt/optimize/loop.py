"""Run the loop: trace, rank, try the most promising candidate, keep it if it is right and faster, trace again.

The first candidate is what ``lenet-trt fuse`` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.optimize.decide import elsewhere_us, noise_us, promise_us, ranked, verdict
from lenet_trt.optimize.records import Accuracy, BatchOutcome, Observation, Trial
from lenet_trt.optimize.space import PlanChange, PluginPlan, Space


class Workbench(Protocol):
    """Define what measures plans."""

    def observe(self, plan: PluginPlan, batch: int | None) -> Observation:
        """Profile a plan's model, and account for its time."""

    def check(self, plan: PluginPlan, batch: int | None) -> Accuracy:
        """Return how exact a plan is.

        Raises:
            LenetTrtError: the plan does not run.
        """

    def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, *, chosen: bool = False) -> tuple[Stats, ...]:
        """Time plans in turns, in one run.

        ``chosen``: the plans are those of the result, and get a run that had no part in choosing them.

        Raises:
            LenetTrtError: a plan does not run.
        """

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        """Return the least time for these nodes of the plain model as one kernel; 0 where it is not known."""


def optimize_at(
    batch: int | None,
    space: Space,
    bench: Workbench,
    log: Callable[[str], None] = lambda _: None,
    over: Callable[[], bool] = lambda: False,
) -> BatchOutcome:
    """Find the plan for one batch size. ``over`` says when the time is over: then nothing further is tried.

    Raises:
        LenetTrtError: the model as it is cannot be run or timed.
    """
    current = PluginPlan()
    (stats,) = bench.compare((current,), batch)
    noise = noise_us(stats)
    log(f"as it is: {stats.median_us:,.2f} us; less than {noise:,.2f} us could be noise")
    inference_us = stats.median_us
    plain = seen = bench.observe(current, batch)
    observed = [(current, seen)]
    trials: list[Trial] = []
    tried: set[PlanChange] = set()
    settled: set[PluginPlan] = set()  # what was slower than a plan that was kept, or is not right

    def floor_us(nodes: tuple[str, ...]) -> float:
        return bench.floor_us(nodes, batch)

    while True:
        names = space.fitted(current).nodes
        changes = [
            change
            for change in space.changes(current, batch)
            if change not in tried and change.applied(current) not in {current, *settled}
        ]
        promises = {change: promise_us(change, seen, plain, names, floor_us) for change in changes}
        # A traced inference takes longer than an untraced one, and no change can win more than the latter.
        promises = {change: min(promise, inference_us) for change, promise in promises.items()}
        order = ranked(promises, noise)
        if not order.worth or over():
            left = (*order.worth, *order.below)
            passed_over = tuple((change.candidate, us) for change, us in left if change.candidate.pieces)
            return BatchOutcome(batch, current, noise, tuple(trials), passed_over, tuple(observed))
        change, promise = order.worth[0]
        if not trials:
            # First what is taken without a measurement: all pieces together may break a region that it leaves whole,
            # and no step that takes out one kernel brings the region back.
            claimed = space.claimed(batch)
            change, promise = next((entry for entry in order.worth if entry[0].candidate == claimed), (change, promise))
        tried.add(change)
        log(f"trying {change}: the ledger promises up to {promise:,.2f} us")
        trial = _try(change, current, promise, noise, bench, batch)
        trials.append(trial)
        log(f"  {'kept' if trial.kept else 'not kept'}: {trial.reason}")
        settled.add(current if trial.kept else trial.after)
        if trial.kept and trial.new is not None:
            current, noise, inference_us = trial.after, noise_us(trial.new), trial.new.median_us
            before, seen = seen, bench.observe(current, batch)
            observed.append((current, seen))
            cost = elsewhere_us(change, before, seen, names, space.fitted(current).nodes)
            trials[-1] = replace(trial, elsewhere_us=cost)


def _try(
    change: PlanChange, current: PluginPlan, promise: float, noise: float, bench: Workbench, batch: int | None
) -> Trial:
    after = change.applied(current)

    def trial(
        kept: bool,
        reason: str,
        accuracy: Accuracy | None = None,
        first: tuple[Stats, Stats] | tuple[None, None] = (None, None),
        second: tuple[Stats, Stats] | tuple[None, None] = (None, None),
    ) -> Trial:
        return Trial(change.candidate, current, after, promise, noise, kept, reason, accuracy, *first, *second)

    try:
        accuracy = bench.check(after, batch)
        if accuracy.problem is not None:
            return trial(False, accuracy.problem, accuracy)
        old, new = bench.compare((current, after), batch)
        decided = verdict(old, new)
        if not decided.kept:
            return trial(False, decided.reason, accuracy, (old, new))
        # A gain may come from the place in memory where the model was loaded: a second load must show it again.
        new_again, old_again = bench.compare((after, current), batch)
        again = verdict(old_again, new_again)
        reason = (
            decided.reason if again.kept else f"{decided.reason}, which a second run does not confirm: {again.reason}"
        )
        return trial(again.kept, reason, accuracy, (old, new), (old_again, new_again))
    except LenetTrtError as error:
        return trial(False, f"it does not run here: {error}")
