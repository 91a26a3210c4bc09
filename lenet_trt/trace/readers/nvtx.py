"""NVTX ranges: which one a moment of a thread lies in, which are inferences and which are nodes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OURS = "lenet_trt"
TENSORRT = "TensorRT"
_ITERATION = re.compile(r"iteration[ _#:]*(\d+)$", re.IGNORECASE)
# What TensorRT pushes around each submission of an inference.
_ENQUEUE = re.compile(r"I?ExecutionContext::enqueue")
# TensorRT's own calls, around the layers: no layers themselves.
_NO_LAYER = re.compile(r"(?:IExecutionContext|ExecutionContext|ICudaEngine|IBuilder|IRuntime)\b")
# torch appends the number of the call to the name of its operator, which would make every call a node of its own.
_TORCH_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids|sequence|stashed seq)\b.*$", re.DOTALL)


@dataclass(frozen=True)
class Range:
    """A range; times in nanoseconds, as traced. ``domain`` is "" for the default one."""

    name: str
    domain: str
    thread: int
    start: int
    end: int

    @property
    def iteration(self) -> int | None:
        """The number of the inference that it marks."""
        found = _ITERATION.match(self.name)
        return int(found[1]) if found and self.domain in (OURS, "") else None


class Innermost:
    """Answers which of some ranges was opened last, of those open at a moment in a thread."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        threads: dict[int, list[Range]] = {}
        for entry in ranges:
            if entry.end > entry.start:
                threads.setdefault(entry.thread, []).append(entry)
        self._steps = {thread: _steps(entries) for thread, entries in threads.items()}

    def at(self, thread: int, moment: int) -> Range | None:
        """The innermost range there."""
        if thread not in self._steps:
            return None
        moments, open_ranges = self._steps[thread]
        index = bisect_right(moments, moment) - 1
        return open_ranges[index] if index >= 0 else None


def iterations(ranges: Iterable[Range]) -> list[Range]:
    """The ranges ``iteration N`` in the order of time: ours, or where there are none, the default domain's."""
    marked = [entry for entry in ranges if entry.iteration is not None]
    ours = [entry for entry in marked if entry.domain == OURS]
    return sorted(ours or marked, key=lambda entry: (entry.start, entry.end))


def enqueues(ranges: Iterable[Range]) -> list[Range]:
    """TensorRT's ranges around its submissions of inferences, in the order of time; of nested ones the outer."""
    found: list[Range] = []
    ends: dict[int, int] = {}
    for entry in sorted(ranges, key=lambda entry: (entry.start, -entry.end)):
        if (
            entry.domain == TENSORRT
            and _ENQUEUE.match(entry.name)
            and entry.start >= ends.get(entry.thread, entry.start)
        ):
            ends[entry.thread] = entry.end
            found.append(entry)
    return found


def node_ranges(ranges: Sequence[Range]) -> list[Range]:
    """The ranges that name nodes: ours, else TensorRT's layers, else the default domain's, else those of any domain."""
    plain = [entry for entry in ranges if entry.iteration is None and entry.name]
    for domain in (OURS, TENSORRT, ""):
        chosen = [entry for entry in plain if entry.domain == domain]
        if domain == TENSORRT:
            chosen = [entry for entry in chosen if not _NO_LAYER.match(entry.name)]
        if chosen:
            return chosen
    return plain


def node_of_range(entry: Range) -> str:
    """The node that a range names."""
    return entry.name if entry.domain in (OURS, TENSORRT) else _TORCH_TAIL.sub("", entry.name)


def _steps(ranges: Sequence[Range]) -> tuple[list[int], list[Range | None]]:
    """From each of these moments on, until the next, the range beside it is the innermost; an end is outside."""
    events = sorted(
        [(entry.end, 0, 0, index) for index, entry in enumerate(ranges)]
        + [(entry.start, 1, -entry.end, index) for index, entry in enumerate(ranges)]
    )
    moments: list[int] = []
    innermost: list[Range | None] = []
    open_now: list[int] = []
    for moment, opens, _, index in events:
        if opens:
            open_now.append(index)
        else:
            open_now.remove(index)
        now = ranges[open_now[-1]] if open_now else None
        if moments and moments[-1] == moment:
            innermost[-1] = now
        else:
            moments.append(moment)
            innermost.append(now)
    return moments, innermost
