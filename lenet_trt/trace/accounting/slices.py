"""Cut an inference into slices: each moment belongs to one kernel or copy, or the GPU is idle for one reason.

Overlapping work counts once. Where several activities run, the moment belongs to the kernel that began first; without
a kernel it belongs to a reformat, then to a copy. So a copy that runs behind a kernel costs nothing.

Idle time before an activity is split at the moment when the call that submitted it returned: before, the host was late
(``host``); after, the work was there and the GPU had not begun it (``gap``). In a CUDA graph this call is the launch of
the whole graph. Other idle time is ``residual``, with its reason: the GPU works for another inference, the submission
is not in the trace, the time after the last activity (until the host saw the result), or an inference without any GPU
work.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Literal

from lenet_trt.tensorrt.layers import is_reformat_layer
from lenet_trt.trace.accounting.names import is_reformat
from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline

Use = Literal["kernel", "copy", "gap", "host", "residual"]

# Times are kept on a grid of 2^-20 us, about a picosecond, so that floats add up exactly in any order.
GRID = 2.0**20

OTHER_INFERENCE = "the GPU worked for another inference"
NO_SUBMISSION = "idle before work whose submission is not in the trace"
AFTER_LAST = "after the last GPU work, until the host was done"
NO_WORK = "inferences without GPU work"


@dataclass(frozen=True)
class Slice:
    """Hold a part of an inference. ``activity`` is what runs; in idle time it is what the GPU waits for."""

    start_us: float
    end_us: float
    use: Use
    activity: Activity | None = None
    why: str | None = None

    @property
    def us(self) -> float:
        """Return the duration."""
        return self.end_us - self.start_us

    @property
    def node(self) -> str | None:
        """Return the node to which the time belongs."""
        return self.activity.node if self.activity else None


def on_grid(us: float) -> float:
    """Round a time to the nearest point of the grid."""
    return round(us * GRID) / GRID


class Slicer:
    """Cut inferences of one timeline into slices."""

    def __init__(
        self,
        timeline: Timeline,
        reformatting: frozenset[str] = frozenset(),
        owners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the timeline, and the nodes that only change layout or type: their kernels count as copies.

        ``owners`` are the nodes to which such nodes are counted, where they are there for one alone.
        """
        self._reformatting = reformatting
        self._owners = owners
        self._activities = sorted(timeline.activities, key=lambda entry: (entry.start_us, entry.end_us, entry.stream))
        self._starts = [entry.start_us for entry in self._activities]
        self._last_ends = list(accumulate((entry.end_us for entry in self._activities), max))
        self._calls = _submissions(timeline.api_calls)

    def owner(self, node: str | None) -> str | None:
        """Return the node to which the time of a node is counted: mostly itself."""
        return None if node is None else self._owners.get(node, node)

    def activities(self, iteration: Iteration) -> list[Activity]:
        """Return what runs while this inference lasts, in order: its own activities, and those of no inference."""
        return [entry for entry in self._within(iteration) if entry.iteration in (None, iteration.index)]

    def submission(self, activity: Activity) -> ApiCall | None:
        """Return the call that submitted it."""
        return None if activity.correlation is None else self._calls.get(activity.correlation)

    def slices(self, iteration: Iteration) -> list[Slice]:
        """Return the slices of one inference, in order and without a hole between them."""
        begin, end = on_grid(iteration.start_us), on_grid(iteration.end_us)
        own = self.activities(iteration)
        if not own:
            return [Slice(begin, end, "residual", why=NO_WORK)] if end > begin else []
        own_starts = [on_grid(entry.start_us) for entry in own]
        found: list[Slice] = []
        for start, stop, active in _moments(self._within(iteration), begin, end):
            mine = [entry for entry in active if entry.iteration in (None, iteration.index)]
            if mine:
                chosen = min(mine, key=self._rank)
                found.append(Slice(start, stop, "copy" if self.is_copy(chosen) else "kernel", chosen))
            elif active:
                found.append(Slice(start, stop, "residual", why=OTHER_INFERENCE))
            else:
                found += self._idle(start, stop, own, own_starts)
        return found

    def is_reformat(self, activity: Activity) -> bool:
        """Say whether a kernel or layer only changes layout or type."""
        if activity.kind in ("memcpy", "memset"):
            return False
        if activity.node is not None and (activity.node in self._reformatting or is_reformat_layer(activity.node)):
            return True
        return is_reformat(activity.name)

    def is_copy(self, activity: Activity) -> bool:
        """Say whether it computes nothing: a copy, a memset or a reformat."""
        return activity.kind in ("memcpy", "memset") or self.is_reformat(activity)

    def _rank(self, activity: Activity) -> tuple[int, float, float, int]:
        kind = 2 if activity.kind in ("memcpy", "memset") else int(self.is_reformat(activity))
        return kind, activity.start_us, activity.end_us, activity.stream

    def _idle(self, start: float, stop: float, own: Sequence[Activity], own_starts: Sequence[float]) -> Iterator[Slice]:
        at = bisect_left(own_starts, stop)
        if at == len(own):
            yield Slice(start, stop, "residual", why=AFTER_LAST)
            return
        following = own[at]
        call = self.submission(following)
        if call is None:
            yield Slice(start, stop, "residual", following, NO_SUBMISSION)
            return
        submitted = min(max(on_grid(call.end_us), start), stop)
        if submitted > start:
            yield Slice(start, submitted, "host", following)
        if stop > submitted:
            yield Slice(submitted, stop, "gap", following)

    def _within(self, iteration: Iteration) -> list[Activity]:
        first = bisect_right(self._last_ends, iteration.start_us)
        last = bisect_left(self._starts, iteration.end_us)
        return [entry for entry in self._activities[first:last] if entry.end_us > iteration.start_us]


def _moments(
    activities: Sequence[Activity], begin: float, end: float
) -> Iterator[tuple[float, float, Sequence[Activity]]]:
    """Cut [begin, end] wherever an activity begins or ends: (from, to, what runs there)."""
    spans = [(max(on_grid(a.start_us), begin), min(on_grid(a.end_us), end), a) for a in activities]
    spans = [span for span in spans if span[1] > span[0]]
    cuts = sorted({begin, end, *(at for start, stop, _ in spans for at in (start, stop))})
    coming = sorted(spans, key=lambda span: span[0])
    active: list[tuple[float, float, Activity]] = []
    position = 0
    for start, stop in pairwise(cuts):
        while position < len(coming) and coming[position][0] <= start:
            active.append(coming[position])
            position += 1
        active = [span for span in active if span[1] > start]
        yield start, stop, [activity for _, _, activity in active]


def _submissions(calls: Sequence[ApiCall]) -> dict[int, ApiCall]:
    """Map each correlation to its call; where a runtime's call contains a driver's call, to the outer one."""
    found: dict[int, ApiCall] = {}
    for call in calls:
        if call.correlation is None:
            continue
        known = found.get(call.correlation)
        if known is None or call.us > known.us:
            found[call.correlation] = call
    return found
