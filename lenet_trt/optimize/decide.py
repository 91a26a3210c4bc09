"""What decides: pure functions of what was measured, so that the rules can be tested without measuring."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lenet_trt.cuda.statistics import Stats, differ
from lenet_trt.optimize.records import Crossing, Observation
from lenet_trt.optimize.space import Piece, Plan

# Two runs of the same differ by this much without any reason that a single run could show.
LEAST_GAIN = 0.02


@dataclass(frozen=True)
class Verdict:
    """Whether the new plan stays, and why."""

    kept: bool
    reason: str


@dataclass(frozen=True)
class Ranked:
    """Candidates that are worth trying, the most promising first, and those that promise no more than the noise."""

    worth: tuple[tuple[Plan, float], ...]
    below: tuple[tuple[Plan, float], ...]


def noise_us(stats: Stats) -> float:
    """The smallest change that one could believe: how far timings of the same spread, and at least a fiftieth."""
    return max(stats.p90_us - stats.p10_us, stats.high_us - stats.low_us, LEAST_GAIN * stats.median_us)


def attempt(candidate: Plan, current: Plan) -> tuple[Plan, tuple[Piece, ...]]:
    """What makes two attempts the same: the candidate, and the pieces that it would push out.

    Pieces elsewhere in the network do not change what it gains, so it is not tried again when those come or go.
    """
    return candidate, current.changed_by(candidate)


def promise_us(
    candidate: Plan,
    current: Plan,
    seen: Observation,
    plain: Observation,
    names: Mapping[Piece, str],
    floor_us: Callable[[tuple[str, ...]], float],
) -> float:
    """How much the ledger says the candidate could win at most.

    That is what the rows of the nodes that it takes cost now, less its own floor, less what the nodes cost in the plain
    model that fall back to it because a piece is pushed out. ``names`` are the plugin nodes of the current plan's
    pieces. Where the trace names no nodes, all of the time might be theirs.
    """
    if not any(row.node is not None for row in seen.rows):
        return max(seen.end_to_end_us, 0.0)
    covered = {node for piece in candidate.pieces for node in piece.nodes}
    out = current.changed_by(candidate)
    plugin_nodes = {names[piece] for piece in out if piece in names}
    cost = sum(
        row.cost_us
        for row in seen.rows
        if row.node is not None and (covered & {row.node, *row.nodes} or row.node in plugin_nodes)
    )
    back = {node for piece in out for node in piece.nodes} - covered
    returns = sum(row.cost_us for row in plain.rows if row.nodes and set(row.nodes) <= back)
    floor = sum(floor_us(piece.nodes) for piece in candidate.pieces)
    return cost - floor - returns


def elsewhere_us(
    candidate: Plan, before: Observation, after: Observation, new_nodes: Mapping[Piece, str], out: Mapping[Piece, str]
) -> float | None:
    """How much more the other nodes cost with the candidate than without it; None where one was not traced.

    ``new_nodes`` are the plugin nodes with it, ``out`` those of the pieces that it pushed out. The time was measured
    end to end, so a plugin pays for this in any case; here it is only told.
    """
    if not all(any(row.node is not None for row in seen.rows) for seen in (before, after)):
        return None
    covered = {node for piece in candidate.pieces for node in piece.nodes} | set(out.values())
    own = {new_nodes[piece] for piece in candidate.pieces}
    untouched = sum(row.cost_us for row in before.rows if row.node is not None and not covered & {row.node, *row.nodes})
    now = sum(row.cost_us for row in after.rows if row.node is not None and not own & {row.node, *row.nodes})
    return now - untouched


def ranked(promises: Mapping[Plan, float], noise: float) -> Ranked:
    """Put candidates in order; of two that promise the same the one with more nodes first."""

    def size(plan: Plan) -> int:
        return sum(len(piece.nodes) for piece in plan.pieces)

    order = sorted(promises.items(), key=lambda entry: (-entry[1], -size(entry[0]), entry[0].key))
    return Ranked(
        tuple(entry for entry in order if entry[1] > noise), tuple(entry for entry in order if entry[1] <= noise)
    )


def verdict(old: Stats, new: Stats) -> Verdict:
    """Keep the new plan only when it is faster beyond the noise; both were timed in turns in one run."""
    gain = old.median_us - new.median_us
    change = f"{old.median_us:,.2f} -> {new.median_us:,.2f} us"
    if gain <= 0:
        return Verdict(False, f"not faster: {change}")
    if not differ(old, new):
        return Verdict(False, f"faster, and within the noise: {change}")
    if gain < LEAST_GAIN * old.median_us:
        return Verdict(False, f"faster by less than {LEAST_GAIN:.0%}: {change}")
    return Verdict(True, f"faster: {change}, {old.median_us / new.median_us:.2f} times")


def best(times: Mapping[Plan, Stats], preferred: Plan) -> Plan:
    """The plan to take at a batch size: the preferred one, unless another is faster beyond the noise."""
    taken = preferred
    for plan, stats in sorted(times.items(), key=lambda entry: entry[1].median_us):
        if plan != taken and verdict(times[taken], stats).kept:
            taken = plan
    return taken


def crossings(chosen: Mapping[int, Plan], times: Mapping[int, Mapping[Plan, Stats]]) -> list[Crossing]:
    """Where the choice changes from one batch size to the next, and at which size both would take the same time.

    Between two sizes the ratio of the times is taken to follow a power of the batch size.
    """
    found = []
    sizes: Sequence[int] = sorted(chosen)
    for low, high in pairwise(sizes):
        small, large = chosen[low], chosen[high]
        if small != large:
            found.append(Crossing(small, large, (low, high), _meet(small, large, low, high, times)))
    return found


def _meet(small: Plan, large: Plan, low: int, high: int, times: Mapping[int, Mapping[Plan, Stats]]) -> float | None:
    try:
        ratios = [math.log(times[n][small].median_us / times[n][large].median_us) for n in (low, high)]
    except (KeyError, ValueError, ZeroDivisionError):
        return None
    if not ratios[0] < 0 < ratios[1]:
        return None
    share = -ratios[0] / (ratios[1] - ratios[0])
    return float(low * (high / low) ** share)
