"""Which node each kernel of a replayed CUDA graph belongs to: noted at the capture, found again in a trace.

A tracer sees a replay as one launch and many kernels. While torch captures, the graph grows by what each node puts
into the stream; a replay runs the same work in the same order, since all of it was captured from one stream.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.device import ask, driver
from lenet_trt.recorders.ranges import Ranges, silent
from lenet_trt.timeline import Activity, Timeline

if TYPE_CHECKING:
    from lenet_trt.runtimes.torch_node import Node


# In the names of the calls that launch one, of the driver and of the runtime.
_LAUNCH = "GraphLaunch"


@dataclass(frozen=True)
class Part:
    """What one node put into a graph: how many of each kind; node None is what surrounds the nodes."""

    node: str | None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How much GPU work that is."""
        return sum(self.counts.values())


class ReplayLog:
    """Told of each node while a stream is captured; ``parts`` are what they put into the graph, in order.

    ``mark`` names nodes to a tracer that listens, in the capture and in the run node by node before it.
    """

    def __init__(self) -> None:
        self.mark: Ranges = silent
        self.parts: list[Part] = []
        self._stream = 0
        self._seen: set[int] = set()

    def begin(self, stream: int) -> None:
        """A capture of this stream has begun."""
        self._stream = stream
        self.parts.clear()
        self._seen.clear()

    def named(self, node: Node) -> AbstractContextManager[None]:
        """Around the computation of a node."""
        return self.mark(_name(node))

    @contextmanager
    def captured(self, node: Node) -> Iterator[None]:
        """Around the capture of a node."""
        with self.named(node):
            yield
        self._add(_name(node))

    def end(self) -> None:
        """All nodes are captured: what came after the last belongs to none."""
        self._add(None)

    def _add(self, node: str | None) -> None:
        kinds = self._new_kinds()
        if kinds:
            self.parts.append(Part(node, dict(kinds)))

    def _new_kinds(self) -> Counter[str]:
        cuda = driver()
        kind = cuda.CUgraphNodeType
        names = {
            kind.CU_GRAPH_NODE_TYPE_KERNEL: "kernel",
            kind.CU_GRAPH_NODE_TYPE_MEMCPY: "memcpy",
            kind.CU_GRAPH_NODE_TYPE_MEMSET: "memset",
        }
        found: Counter[str] = Counter()
        for node in _nodes(self._stream):
            if int(node) not in self._seen:
                self._seen.add(int(node))
                name = names.get(ask(cuda.cuGraphNodeGetType(node), "cannot read a graph node"))
                if name is not None:
                    found[name] += 1
        return found


def _name(node: Node) -> str:
    return node.name or node.outputs[0]


def _nodes(stream: int) -> Sequence[Any]:
    """The nodes of the graph that is being captured from a stream."""
    cuda = driver()
    answer = ask(cuda.cuStreamGetCaptureInfo(stream), "cannot ask for the graph being captured")
    graph = answer[2]  # after the status and the capture's number
    _, count = ask(cuda.cuGraphGetNodes(graph, 0), "cannot list the graph's nodes")
    if not count:
        return []
    nodes, _ = ask(cuda.cuGraphGetNodes(graph, count), "cannot list the graph's nodes")
    return nodes


def write_parts(parts: Sequence[Part], path: Path) -> None:
    """Write them for the parent process."""
    path.write_text(json.dumps([asdict(part) for part in parts]), encoding="utf-8")


def read_parts(path: Path) -> list[Part]:
    """Read what ``write_parts`` wrote; none where there is no such file."""
    if not path.is_file():
        return []
    return [Part(**part) for part in json.loads(path.read_text(encoding="utf-8"))]


def with_nodes(timeline: Timeline, parts: Sequence[Part]) -> Timeline:
    """Name the node of each activity of a replay; a replay that does not match keeps its own and leaves a note."""
    if not parts:
        return timeline
    wanted = sum(part.total for part in parts)
    # An inference may copy its inputs and results besides.
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
            f"{len(unmatched)} iterations have other GPU work than was captured (iteration {iteration}: {seen} "
            f"activities, captured: {wanted}); their kernels name no node",
        )
    return replace(timeline, activities=tuple(activities), notes=notes)


def _nodes_in_order(activities: Sequence[Activity], parts: Sequence[Part]) -> list[str | None] | None:
    nodes: list[str | None] = []
    for part in parts:
        here = activities[len(nodes) : len(nodes) + part.total]
        # A node's own work may be listed in any order, so that its kinds are counted, not lined up.
        if Counter(activity.kind for activity in here) != Counter(part.counts):
            return None
        nodes += [part.node] * part.total
    return nodes if len(nodes) == len(activities) else None
