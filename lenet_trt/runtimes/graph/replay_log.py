"""Note which node of a model put which work into a captured CUDA graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lenet_trt.cuda.driver import ask, driver
from lenet_trt.schema import Count

if TYPE_CHECKING:
    from lenet_trt.runtimes.graph.torch_node import Node


Ranges: TypeAlias = Callable[[str], AbstractContextManager[None]]


def silent(name: str) -> AbstractContextManager[None]:
    """Mark nothing."""
    return nullcontext()


@dataclass(frozen=True)
class Part:
    """Count what one node put into a graph, by kind; node None is the work around the nodes."""

    node: str | None
    counts: dict[str, Count] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the number of GPU operations."""
        return sum(self.counts.values())


class ReplayLog:
    """Note each node while a stream is captured; ``parts`` are the work that nodes put into the graph, in order.

    ``mark`` names nodes to a tracer, in the capture and in the run node by node before it.
    """

    def __init__(self) -> None:
        self.mark: Ranges = silent
        self.parts: list[Part] = []
        self._stream = 0
        self._seen: set[int] = set()

    def begin(self, stream: int) -> None:
        """Note that a capture of this stream has begun."""
        self._stream = stream
        self.parts.clear()
        self._seen.clear()

    def named(self, node: Node) -> AbstractContextManager[None]:
        """Mark the computation of a node."""
        return self.mark(_name(node))

    @contextmanager
    def captured(self, node: Node) -> Iterator[None]:
        """Note the work of a node while it is captured."""
        with self.named(node):
            yield
        self._add(_name(node))

    def end(self) -> None:
        """Note that all nodes are captured; later work belongs to no node."""
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
    """Return the nodes of the graph that is captured from a stream."""
    cuda = driver()
    answer = ask(cuda.cuStreamGetCaptureInfo(stream), "cannot ask for the graph being captured")
    graph = answer[2]  # after the status and the capture's number
    _, count = ask(cuda.cuGraphGetNodes(graph, 0), "cannot list the graph's nodes")
    if not count:
        return []
    nodes, _ = ask(cuda.cuGraphGetNodes(graph, count), "cannot list the graph's nodes")
    return nodes
