"""Decide by pure functions of what was measured, so that the rules can be tested without measuring."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lenet_trt.cuda.statistics import Stats, differ
from lenet_trt.optimize.records import Crossing, Observation
from lenet_trt.optimize.space import PlanChange, PluginPiece, PluginPlan

# Two runs of the same model differ by this share, for reasons that a single run cannot show.
LEAST_GAIN = 0.02


@dataclass(frozen=True)
class Verdict:
    """Hold whether the new plan stays, and why."""

    kept: bool
    reason: str


@dataclass(frozen=True)
class Ranked:
    """Hold the changes to try, the most promising first, and those that promise no more than the noise."""

    worth: tuple[tuple[PlanChange, float], ...]
    below: tuple[tuple[PlanChange, float], ...]


def noise_us(stats: Stats) -> float:
    """Return the smallest change that counts: the spread of the timings, and at least 2% of the time."""
    return max(stats.p90_us - stats.p10_us, stats.high_us - stats.low_us, LEAST_GAIN * stats.median_us)


def promise_us(
    change: PlanChange,
    seen: Observation,
    plain: Observation,
    names: Mapping[PluginPiece, str],
    floor_us: Callable[[tuple[str, ...]], float],
) -> float:
    """Return the most time that a change could win, from the ledger.

    The promise is the present cost of the nodes and pieces that go, minus the floor of the new pieces, minus the cost
    in the plain model of the nodes that return. ``names``: the plugin nodes of the current plan's pieces. Where the
    trace names no nodes, the promise is the whole time.
    """
    if not any(row.node is not None for row in seen.rows):
        return max(seen.end_to_end_us, 0.0)
    covered = {node for piece in change.candidate.pieces for node in piece.nodes}
    plugin_nodes = {names[piece] for piece in change.out if piece in names}
    cost = sum(
        row.cost_us
        for row in seen.rows
        if row.node is not None and (covered & {row.node, *row.nodes} or row.node in plugin_nodes)
    )
    back = {node for piece in change.out for node in piece.nodes} - covered
    returns = sum(row.cost_us for row in plain.rows if row.nodes and set(row.nodes) <= back)
    floor = sum(floor_us(piece.nodes) for piece in change.candidate.pieces)
    return cost - floor - returns


def elsewhere_us(
    change: PlanChange,
    before: Observation,
    after: Observation,
    names: Mapping[PluginPiece, str],
    new_names: Mapping[PluginPiece, str],
) -> float | None:
    """Return how much more the other nodes cost after a change; None where one was not traced, or no piece is new.

    ``names``, ``new_names``: the plugin nodes before and after. The time is measured end to end and includes this cost;
    the number only explains it.
    """
    if not change.candidate.pieces:
        return None  # the nodes that return are the others
    if not all(any(row.node is not None for row in seen.rows) for seen in (before, after)):
        return None
    covered = {node for piece in change.candidate.pieces for node in piece.nodes}
    covered |= {names[piece] for piece in change.out}
    own = {new_names[piece] for piece in change.candidate.pieces}
    untouched = sum(row.cost_us for row in before.rows if row.node is not None and not covered & {row.node, *row.nodes})
    now = sum(row.cost_us for row in after.rows if row.node is not None and not own & {row.node, *row.nodes})
    return now - untouched


def ranked(promises: Mapping[PlanChange, float], noise: float) -> Ranked:
    """Sort changes by their promise in steps of the noise; within a step, the one with more new nodes comes first.

    Whatever breaks a region of TensorRT's compiler promises nearly the whole region, and what replaces most of its
    nodes keeps most of that promise.
    """

    def size(change: PlanChange) -> int:
        return sum(len(piece.nodes) for piece in change.candidate.pieces)

    order = sorted(
        promises.items(), key=lambda entry: (-(entry[1] // noise), -size(entry[0]), -entry[1], repr(entry[0]))
    )
    return Ranked(
        tuple(entry for entry in order if entry[1] > noise), tuple(entry for entry in order if entry[1] <= noise)
    )


def verdict(old: Stats, new: Stats) -> Verdict:
    """Decide whether the new plan stays: it must be faster beyond the noise; both were timed in turns in one run."""
    gain = old.median_us - new.median_us
    change = f"{old.median_us:,.2f} -> {new.median_us:,.2f} us"
    if gain <= 0:
        return Verdict(False, f"not faster: {change}")
    if not differ(old, new):
        return Verdict(False, f"faster, and within the noise: {change}")
    if gain < LEAST_GAIN * old.median_us:
        return Verdict(False, f"faster by less than {LEAST_GAIN:.0%}: {change}")
    return Verdict(True, f"faster: {change}, {old.median_us / new.median_us:.2f} times")


def best(times: Mapping[PluginPlan, Stats], preferred: PluginPlan) -> PluginPlan:
    """Return the plan to take at a batch size: the preferred plan, unless another is faster beyond the noise."""
    taken = preferred
    for plan, stats in sorted(times.items(), key=lambda entry: entry[1].median_us):
        if plan != taken and verdict(times[taken], stats).kept:
            taken = plan
    return taken


def crossings(chosen: Mapping[int, PluginPlan], times: Mapping[int, Mapping[PluginPlan, Stats]]) -> list[Crossing]:
    """Find where the choice changes between two batch sizes, and the size at which both plans take the same time.

    Between two sizes the ratio of the times is assumed to follow a power of the batch size.
    """
    found = []
    sizes: Sequence[int] = sorted(chosen)
    for low, high in pairwise(sizes):
        small, large = chosen[low], chosen[high]
        if small != large:
            found.append(Crossing(small, large, (low, high), _meet(small, large, low, high, times)))
    return found


def _meet(
    small: PluginPlan, large: PluginPlan, low: int, high: int, times: Mapping[int, Mapping[PluginPlan, Stats]]
) -> float | None:
    try:
        ratios = [math.log(times[n][small].median_us / times[n][large].median_us) for n in (low, high)]
    except (KeyError, ValueError, ZeroDivisionError):
        return None
    if not ratios[0] < 0 < ratios[1]:
        return None
    share = -ratios[0] / (ratios[1] - ratios[0])
    return float(low * (high / low) ** share)
