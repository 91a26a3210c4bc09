"""Hold the result of a run: the plan for each batch size, all plans timed together, and where they cross."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.optimize.decide import best, crossings
from lenet_trt.optimize.loop import Workbench, optimize_at
from lenet_trt.optimize.records import BatchOutcome, Crossing
from lenet_trt.optimize.space import PluginPlan, Space

PLAIN = PluginPlan()


@dataclass(frozen=True)
class Optimized:
    """Hold the result of a run; ``times``: at each batch size the plain model and the plans that are right."""

    outcomes: tuple[BatchOutcome, ...]
    chosen: Mapping[int | None, PluginPlan]
    times: Mapping[int | None, Mapping[PluginPlan, Stats]]
    crossings: tuple[Crossing, ...]

    def plans(self) -> dict[PluginPlan, list[int | None]]:
        """Return each chosen plan with its batch sizes."""
        found: dict[PluginPlan, list[int | None]] = {}
        for batch, plan in self.chosen.items():
            found.setdefault(plan, []).append(batch)
        return found

    def gain(self, batch: int | None) -> float:
        """Return how many times faster the choice is than the plain model."""
        times = self.times[batch]
        return times[PLAIN].median_us / times[self.chosen[batch]].median_us

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "batches": [outcome.as_dict() for outcome in self.outcomes],
            "chosen": [
                {
                    "batch": batch,
                    "plan": plan.as_list(),
                    "times_faster": self.gain(batch),
                    "times": [
                        {"plan": other.as_list(), **stats.as_json()} for other, stats in self.times[batch].items()
                    ],
                }
                for batch, plan in self.chosen.items()
            ],
            "crossings": [crossing.as_dict() for crossing in self.crossings],
        }


def optimize(
    batches: Sequence[int],
    space: Space,
    bench: Workbench,
    log: Callable[[str], None] = lambda _: None,
    over: Callable[[], bool] = lambda: False,
) -> Optimized:
    """Run the loop for each batch size (none: the model's shapes are fixed), then time all plans against each other.

    ``over`` says when the time is over: then no further change is tried.

    Raises:
        LenetTrtError: the model as it is cannot be run or timed.
    """
    sizes: list[int | None] = list(batches) or [None]
    outcomes = []
    for batch in sizes:
        log("" if batch is None else f"batch {batch}")
        outcomes.append(optimize_at(batch, space, bench, log, over))
    plans = tuple(dict.fromkeys([PLAIN, *(outcome.plan for outcome in outcomes)]))
    times = {outcome.batch: _together(_right(plans, outcome, bench), outcome.batch, bench) for outcome in outcomes}
    chosen = {outcome.batch: best(times[outcome.batch], outcome.plan) for outcome in outcomes}
    numbered = {batch: plan for batch, plan in chosen.items() if batch is not None}
    measured = {batch: found for batch, found in times.items() if batch is not None}
    return Optimized(tuple(outcomes), chosen, times, tuple(crossings(numbered, measured)))


def _right(plans: tuple[PluginPlan, ...], outcome: BatchOutcome, bench: Workbench) -> tuple[PluginPlan, ...]:
    """Return the plans that may be chosen at a batch size: its own, and those of other sizes that are right there."""
    return tuple(plan for plan in plans if plan in (PLAIN, outcome.plan) or _is_right(plan, outcome.batch, bench))


def _is_right(plan: PluginPlan, batch: int | None, bench: Workbench) -> bool:
    try:
        return bench.check(plan, batch).problem is None
    except LenetTrtError:  # it does not run with this batch
        return False


def _together(plans: tuple[PluginPlan, ...], batch: int | None, bench: Workbench) -> dict[PluginPlan, Stats]:
    return dict(zip(plans, bench.compare(plans, batch, chosen=True), strict=True))
