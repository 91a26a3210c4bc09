"""Name the node of each kernel in a replayed CUDA graph, from the notes of ``replay_log`` at the capture.

A tracer sees a replay as one launch and many kernels. While torch captures, the graph grows by the work that each node
puts into the stream. A replay runs the same work in the same order, since all of it was captured from one stream.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from lenet_trt.runtimes.graph.replay_log import Part
from lenet_trt.schema import read_json
from lenet_trt.trace.timeline import Activity, Timeline

# This is in the names of the calls that launch a CUDA graph, of the driver and of the runtime.
_LAUNCH = "GraphLaunch"


def write_parts(parts: Sequence[Part], path: Path) -> None:
    """Write the parts of a replay for the parent process."""
    path.write_text(json.dumps([asdict(part) for part in parts]), encoding="utf-8")


def read_parts(path: Path) -> list[Part]:
    """Read what ``write_parts`` wrote; return no parts where there is no such file."""
    if not path.is_file():
        return []
    return read_json(path, list[Part], wanted="what a replay consists of", fix="profile again")


def with_nodes(timeline: Timeline, parts: Sequence[Part]) -> Timeline:
    """Name the node of each activity of a replay; a replay that does not match keeps its names and leaves a note."""
    if not parts:
        return timeline
    wanted = sum(part.total for part in parts)
    # An inference may also copy its inputs and results.
    launches = {call.correlation for call in timeline.api_calls if _LAUNCH in call.name}
    by_iteration: dict[int, list[int]] = defaultdict(list)
    for at, activity in enumerate(timeline.activities):
        if activity.iteration is not None and activity.correlation in launches:
            by_iteration[activity.iteration].append(at)
    activities = list(timeline.activities)
    unmatched = []
    for iteration, positions in sorted(by_iteration.items()):
        positions.sort(key=lambda at: activities[at].start_us)
        nodes = _nodes_in_order([activities[at] for at in positions], parts)
        if nodes is None:
            unmatched.append((iteration, len(positions)))
            continue
        for at, node in zip(positions, nodes, strict=True):
            activities[at] = replace(activities[at], node=node)
    notes = timeline.notes
    if unmatched:
        iteration, seen = unmatched[0]
        notes += (
            f"{len(unmatched)} inferences have other GPU work than the capture (inference {iteration}: {seen} "
            f"activities, captured: {wanted}); their kernels name no node",
        )
    return replace(timeline, activities=tuple(activities), notes=notes)


def _nodes_in_order(activities: Sequence[Activity], parts: Sequence[Part]) -> list[str | None] | None:
    nodes: list[str | None] = []
    for part in parts:
        here = activities[len(nodes) : len(nodes) + part.total]
        # The work of one node may be listed in any order, so its kinds are counted and not compared one by one.
        if Counter(activity.kind for activity in here) != Counter(part.counts):
            return None
        nodes += [part.node] * part.total
    return nodes if len(nodes) == len(activities) else None
