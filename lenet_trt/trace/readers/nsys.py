"""Read Nsight Systems' SQLite export as a timeline: of our own programs, of trtexec, and of others.

A kernel belongs to the innermost node range (``nvtx.py``) around the API call that launched it; where a CUDA graph
launched it, around the call that put it into the graph. Inferences are the ranges ``iteration N``. Without them they
are TensorRT's submissions or the launches of CUDA graphs. Without those, the time between cudaProfilerStart and
cudaProfilerStop is one inference; without these calls, the whole trace is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.readers.database import Database
from lenet_trt.trace.readers.nsys_rows import (
    ALWAYS,
    EVENTS,
    GpuWork,
    NsysRows,
    RecordedCall,
    is_export,
    nsys_warnings,
    process_of,
    thread_of,
)
from lenet_trt.trace.readers.nvtx import Innermost, Range, enqueues, iterations, node_of_range, node_ranges
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline

# The most events in memory; of a longer trace, the first inferences that fit are read.
MOST_EVENTS = 1_000_000

Moment: TypeAlias = tuple[int, int]  # thread, nanoseconds
Launches: TypeAlias = dict[tuple[int, "int | None"], RecordedCall]


def read_nsys(path: Path, most_events: int = MOST_EVENTS) -> Timeline:
    """Read an SQLite export.

    Raises:
        LenetTrtError: the file is no export of Nsight Systems, is damaged, of an unknown version, without CUDA
            activity, or too long for memory; the message says which and what to do.
    """
    with Database(path) as database:
        if "StringTable" in database.tables():
            raise LenetTrtError(
                f"{path} is a profile of nvprof or of the Visual Profiler, which lenet-trt does not read: record with "
                "their successor Nsight Systems, nsys profile -t cuda,nvtx"
            )
        if not is_export(database.tables()):
            raise LenetTrtError(
                f"{path} is an SQLite file, but no export of Nsight Systems (its tables: "
                f"{', '.join(sorted(database.tables())[:5]) or 'none'}): export one with nsys export --type sqlite"
            )
        if not any(map(database.count, EVENTS)):
            said = "; ".join(nsys_warnings(database))
            raise LenetTrtError(
                f"{path} has no CUDA activity: record with -t cuda,nvtx, and check that the program uses the GPU "
                f"(inside the capture range, when there is one){'. ' + said if said else ''}"
            )
        return _Reading(NsysRows(database), most_events).timeline()


class _Reading:
    def __init__(self, rows: NsysRows, most_events: int) -> None:
        self._rows = rows
        self._notes: list[str] = []
        self._ranges = list(rows.ranges())
        self._window = _profiler_window(rows)
        self._marked, marked_by = _inferences(rows, self._ranges, self._window)
        if marked_by:
            self._notes.append(marked_by)
        self._fit(most_events)
        self._calls = sorted(rows.calls(self._window), key=lambda call: call.start)
        self._launches: Launches = {
            (process_of(call.thread), call.correlation): call for call in self._calls if call.correlation is not None
        }
        self._work = [entry for entry in rows.work(self._window[0]) if self._inside(entry)]

    def timeline(self) -> Timeline:
        activities = self._placed()
        spans = self._spans(activities)
        zero = spans[0][0] if spans else 0

        def us(moment: float) -> float:
            return (moment - zero) / 1e3

        activities = [replace(entry, start_us=us(entry.start_us), end_us=us(entry.end_us)) for entry in activities]
        self._say(spans)
        return Timeline(
            f"nsys {self._rows.version()}",
            environment=self._rows.environment(),
            command=self._rows.command(),
            notes=tuple(self._notes),
            iterations=tuple(Iteration(index, us(start), us(end)) for index, (start, end) in enumerate(spans)),
            activities=tuple(sorted(activities, key=lambda entry: (entry.start_us, entry.end_us))),
            api_calls=tuple(
                ApiCall(call.name, us(call.start), us(call.end), thread_of(call.thread), call.correlation)
                for call in self._calls
            ),
            ranges=tuple(
                HostRange(entry.name, us(entry.start), us(entry.end), thread_of(entry.thread))
                for entry in sorted(self._ranges, key=lambda entry: (entry.start, -entry.end))
                if entry.end >= self._window[0] and entry.start < self._window[1]
            ),
        )

    def _fit(self, most_events: int) -> None:
        """Narrow the window to the inferences that fit into memory."""
        database = self._rows.database
        if sum(map(database.count, EVENTS)) <= most_events:
            return
        inside = [entry for entry in self._marked if self._window[0] <= entry.start < self._window[1]]
        starts = [entry.start for entry in inside]
        counts = [0] * (len(inside) + 1)  # before the first inference, then from the start of each to the next
        for table in EVENTS:
            for (start,) in database.rows(table, ("start",), (), "start >= ? AND start < ?", self._window):
                counts[bisect_right(starts, start)] += 1
        if sum(counts) <= most_events:
            return
        kept, events = 0, counts[0]
        while kept < len(inside) and events + counts[kept + 1] <= most_events:
            events += counts[kept + 1]
            kept += 1
        if not kept:
            raise LenetTrtError(
                f"{database.path} has {sum(counts)} events, and {most_events} fit: record fewer inferences "
                "(--capture-range=cudaProfilerApi, or --duration), or mark each with an NVTX range named iteration N"
            )
        self._notes.append(f"The trace is long: its first {kept} of {len(inside)} inferences were read.")
        self._window = (self._window[0], inside[kept].start)
        self._marked = inside[:kept]

    def _inside(self, entry: GpuWork) -> bool:
        """Say whether an activity belongs to the window; work that was launched in it may begin after its end."""
        return entry.activity.start_us < self._window[1] or self._launch(entry) is not None

    def _launch(self, entry: GpuWork) -> RecordedCall | None:
        return self._launches.get((entry.process, entry.activity.correlation))

    def _placed(self) -> list[Activity]:
        """Return the activities with their nodes and inferences."""
        nodes = Innermost(node_ranges(self._ranges))
        graphs = any(entry.graph_node is not None for entry in self._work)
        captured = _captured(self._rows) if graphs else {}
        inference = _Inferences(self._marked)
        began = min((call.start for call in self._calls), default=0)
        placed = []
        outside = 0
        for entry in self._work:
            launch = self._launch(entry)
            asked = (launch.thread, launch.start) if launch else None
            if entry.graph_node is not None:
                asked = captured.get((entry.process, entry.graph_node))
            node = nodes.at(*asked) if asked else None
            # Nsight Systems records graphs from the program's start on, ranges from the start of the capture range.
            outside += entry.graph_node is not None and node is None and (asked is None or asked[1] < began)
            moment = (launch.thread, launch.start) if launch else (0, int(entry.activity.start_us))
            iteration = inference.at(*moment) if self._marked else 0
            placed.append(replace(entry.activity, node=node_of_range(node) if node else None, iteration=iteration))
        if outside:
            self._notes.append(
                f"{outside} activities are of CUDA graphs that were captured outside the trace: their nodes are "
                "unknown. Let the capture range begin before the graph is made, or profile node by node."
            )
        return placed

    def _spans(self, activities: Sequence[Activity]) -> list[tuple[int, int]]:
        """Return start and end of each inference; it ends when the last work that it submitted ends."""
        if self._marked:
            ends = [entry.end for entry in self._marked]
            for entry in activities:
                if entry.iteration is not None:
                    ends[entry.iteration] = max(ends[entry.iteration], int(entry.end_us))
            return [(entry.start, end) for entry, end in zip(self._marked, ends, strict=True)]
        starts = [call.start for call in self._calls] + [int(entry.start_us) for entry in activities]
        ends = [call.end for call in self._calls] + [int(entry.end_us) for entry in activities]
        return [(min(starts), max(ends))] if starts else []

    def _say(self, spans: Sequence[tuple[int, int]]) -> None:
        """Note what a reader of the numbers should know."""
        notes = self._notes
        if not self._marked:
            notes.append(
                "No range is named iteration N: the whole trace counts as one inference. Mark each inference with NVTX "
                "to get the time of one."
            )
        if any(entry.activity.kind == "layer" for entry in self._work):
            notes.append(
                "CUDA graphs were traced as a whole: record with --cuda-graph-trace=node to see their kernels."
            )
        lost = sum(self._launch(entry) is None for entry in self._work)
        if lost:
            notes.append(f"{lost} activities were submitted by calls that are not in the trace.")
        if len({entry.process for entry in self._work}) > 1:
            notes.append("The trace has several processes; they share one time axis.")
        devices = self._rows.devices()
        if len(devices) > 1:
            notes.append(f"The trace has work of {len(devices)} GPUs; their streams are not distinguished.")
        moments = [moment for start, end in spans for moment in (start, end)] or [0]
        overhead_us = self._rows.overhead_us(min(moments), max(moments))
        if overhead_us:
            notes.append(f"Nsight Systems itself kept the host busy for {overhead_us:.0f} us of the time shown.")
        notes.extend(nsys_warnings(self._rows.database, {process_of(call.thread) for call in self._calls}))


def _inferences(rows: NsysRows, ranges: Sequence[Range], window: tuple[int, int]) -> tuple[list[Range], str]:
    """Return the ranges that separate inferences, and a note for the reader."""
    marked = iterations(ranges)
    if marked:
        return marked, ""
    inside = [entry for entry in enqueues(ranges) if window[0] <= entry.start < window[1]]
    captures = _captures(rows)
    # Nothing runs during a capture: it makes the graph whose launches are the inferences.
    run = [entry for entry in inside if not any(start <= entry.start < end for start, end in captures)]
    calls = [call for call in rows.calls_named("cu(da)?GraphLaunch") if window[0] <= call.start < window[1]]
    threads = Innermost(inside)
    launches = [
        Range(call.name, "", call.thread, call.start, call.end)
        for call in calls
        if threads.at(call.thread, call.start) is None
    ]
    if len(launches) > max(len(run), 1):
        more = f" What was submitted without a graph ({len(run)} times) is left out." if run else ""
        return launches, f"Each of the {len(launches)} launches of a CUDA graph counts as an inference.{more}"
    if run:
        return run, f"Each of TensorRT's ranges ExecutionContext::enqueue ({len(run)}) counts as an inference."
    return [], ""


def _captures(rows: NsysRows) -> list[tuple[int, int]]:
    """Return the spans in which calls were captured into CUDA graphs."""
    ends = [call.end for call in rows.calls_named("cu(da)?StreamEndCapture")]
    begins = [call.start for call in rows.calls_named("cu(da)?StreamBeginCapture")]
    return [(begin, min((end for end in ends if end > begin), default=ALWAYS[1])) for begin in begins]


class _Inferences:
    """Find inferences by their ranges; several threads may run inferences at the same time."""

    def __init__(self, marked: Sequence[Range]) -> None:
        self._marked = marked
        self._starts = [entry.start for entry in marked]
        self._numbers = {entry: index for index, entry in enumerate(marked)}
        self._innermost = Innermost(marked)

    def at(self, thread: int, moment: int) -> int | None:
        """Return the inference of this thread at this moment, else the last one that began before and is not over."""
        own = self._innermost.at(thread, moment)
        if own is not None:
            return self._numbers[own]
        index = bisect_right(self._starts, moment) - 1
        return index if index >= 0 and moment < self._marked[index].end else None


def _profiler_window(rows: NsysRows) -> tuple[int, int]:
    """Return the span from the first cudaProfilerStart to the last cudaProfilerStop, where the trace exceeds it."""
    starts = [call.end for call in rows.calls_named("cu(da)?ProfilerStart")]
    if not starts:
        return ALWAYS
    stops = [call.start for call in rows.calls_named("cu(da)?ProfilerStop") if call.start > starts[0]]
    return starts[0], max(stops, default=ALWAYS[1])


def _captured(rows: NsysRows) -> dict[tuple[int, int], Moment]:
    """Return where each node of a CUDA graph was first made.

    Instantiation clones a graph, perhaps several times: a copied node has a row of its own and a row for its origin.
    """
    made: dict[tuple[int, int], Moment] = {}
    copied: dict[tuple[int, int], tuple[int, int]] = {}
    for entry in rows.graph_nodes():
        process = process_of(entry.thread)
        if entry.original is None:
            made.setdefault((process, entry.node), (entry.thread, entry.start))
        else:
            copied[process, entry.node] = (process, entry.original)
    found = {}
    for key in {*made, *copied}:
        origin = key
        passed = {origin}
        while origin in copied and copied[origin] not in passed:
            origin = copied[origin]
            passed.add(origin)
        if origin in made:
            found[key] = made[origin]
    return found
