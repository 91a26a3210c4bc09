"""Interpret NVTX ranges: find the range around a moment of a thread, the inferences, and the nodes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OURS = "lenet_trt"
TENSORRT = "TensorRT"
_ITERATION = re.compile(r"iteration[ _#:]*(\d+)$", re.IGNORECASE)
# TensorRT puts this range around each submission of an inference.
_ENQUEUE = re.compile(r"I?ExecutionContext::enqueue")
# TensorRT's own calls around the layers; they are not layers.
_NO_LAYER = re.compile(r"(?:IExecutionContext|ExecutionContext|ICudaEngine|IBuilder|IRuntime)\b")
# torch appends the call's number to the name of its operator; with it, every call would be a node of its own.
_TORCH_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids|sequence|stashed seq)\b.*$", re.DOTALL)


@dataclass(frozen=True)
class Range:
    """Hold a range; times in nanoseconds, as traced. ``domain`` is "" for the default domain."""

    name: str
    domain: str
    thread: int
    start: int
    end: int

    @property
    def iteration(self) -> int | None:
        """Return the number of the inference that the range marks."""
        found = _ITERATION.match(self.name)
        return int(found[1]) if found and self.domain in (OURS, "") else None


class Innermost:
    """Find the innermost range: of the ranges open at a moment in a thread, the one opened last."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        threads: dict[int, list[Range]] = {}
        for entry in ranges:
            if entry.end > entry.start:
                threads.setdefault(entry.thread, []).append(entry)
        self._steps = {thread: _steps(entries) for thread, entries in threads.items()}

    def at(self, thread: int, moment: int) -> Range | None:
        """Return the innermost range at this moment."""
        if thread not in self._steps:
            return None
        moments, open_ranges = self._steps[thread]
        index = bisect_right(moments, moment) - 1
        return open_ranges[index] if index >= 0 else None


def iterations(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges ``iteration N`` in order of time: ours, or where there are none, the default domain's."""
    marked = [entry for entry in ranges if entry.iteration is not None]
    ours = [entry for entry in marked if entry.domain == OURS]
    return sorted(ours or marked, key=lambda entry: (entry.start, entry.end))


def enqueues(ranges: Iterable[Range]) -> list[Range]:
    """Return TensorRT's ranges around its submissions of inferences, in order of time; of nested ranges the outer."""
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
    """Return the ranges that name nodes: ours, else TensorRT's layers, else the default domain's, else any domain's."""
    plain = [entry for entry in ranges if entry.iteration is None and entry.name]
    for domain in (OURS, TENSORRT, ""):
        chosen = [entry for entry in plain if entry.domain == domain]
        if domain == TENSORRT:
            chosen = [entry for entry in chosen if not _NO_LAYER.match(entry.name)]
        if chosen:
            return chosen
    return plain


def node_of_range(entry: Range) -> str:
    """Return the node that a range names."""
    return entry.name if entry.domain in (OURS, TENSORRT) else _TORCH_TAIL.sub("", entry.name)


def _steps(ranges: Sequence[Range]) -> tuple[list[int], list[Range | None]]:
    """Return moments and ranges: from each moment until the next one, its range is the innermost; None is outside."""
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
