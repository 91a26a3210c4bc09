"""Replace matched nodes of an ONNX file by a plugin node; the rest of the file does not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.working_copy import Array, initializers_listed_as_inputs, names_captured
from lenet_trt.kernel.pattern import DOMAIN

# Model-local functions exist from this version of the format on.
_FUNCTIONS_IR_VERSION = 8


@dataclass(frozen=True)
class Insertion:
    """Hold new nodes, and the indexes of the nodes that they replace; they come where ``place`` is, or the last one."""

    nodes: tuple[onnx.NodeProto, ...]
    origins: frozenset[int]
    place: int | None = None


class NewNodes:
    """Collect new nodes, each named as its output, and their constants."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}

    @property
    def tensors(self) -> list[onnx.TensorProto]:
        """Return all constants."""
        return list(self._tensors.values())

    def taken(self) -> tuple[onnx.NodeProto, ...]:
        """Return the nodes that were added since this was last called."""
        nodes, self._nodes = tuple(self._nodes), []
        return nodes

    def add(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Add a node."""
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))

    def copies(self, nodes: Iterable[onnx.NodeProto], read: Mapping[str, str], ending: str) -> dict[str, str]:
        """Add copies of nodes, in order, and return the names of what they read and give, by those of the nodes'.

        ``read``: other names of what they read; the names of what they give get the ``ending``.
        """
        names = dict(read)
        for node in nodes:
            names.update({name: f"{name}{ending}" for name in node.output if name})
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = [names.get(name, name) for name in node.input]
            copy.output[:] = [names.get(name, name) for name in node.output]
            copy.name = copy.output[0]
            self._nodes.append(copy)
        return names

    def constant(self, name: str, value: Array) -> str:
        """Add a constant, if it is not there, and return its name."""
        self._tensors.setdefault(name, numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def dense_layer(self, x: str, weight: tuple[str, Array], bias: tuple[str, Array], y: str) -> None:
        """Add a dense layer over the last axis; ``weight`` and ``bias``: their names, w [out, in] and b [out]."""
        self.add("MatMul", [x, self.constant(weight[0], weight[1].T)], f"{y}.product")
        self.add("Add", [f"{y}.product", self.constant(*bias)], y)

    def part(self, x: str, axis: int, start: int, size: int, output: str) -> None:
        """Add a slice of one axis."""
        numbers = {"start": start, "end": start + size, "axis": axis}
        part = [self.constant(f"{output}.{key}", np.array([n], np.int64)) for key, n in numbers.items()]
        self.add("Slice", [x, *part], output)


class Uses:
    """Know which nodes of a graph read which value."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.graph_outputs = {value.name for value in graph.output}
        self.reads = [{name for name in [*node.input, *names_captured(node)] if name} for node in graph.node]
        self.producer = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
        self.values = set(self.producer) | {entry.name for entry in [*graph.input, *graph.initializer]}
        self.readers: dict[str, set[int]] = {}
        for index, names in enumerate(self.reads):
            for name in names:
                self.readers.setdefault(name, set()).add(index)

    def dead_without(self, removed: Iterable[int], still_read: Iterable[str]) -> set[int]:
        """Return the nodes whose results no node reads without ``removed``; ``removed`` are not among them.

        ``still_read``: the values that the replacing nodes read.
        """
        gone = set(removed)
        wanted = self.graph_outputs | set(still_read)
        pending = [name for index in gone for name in self.reads[index]]
        dead: set[int] = set()
        while pending:
            index = self.producer.get(pending.pop())
            if index is None or index in gone or not self._unread(index, gone, wanted):
                continue
            gone.add(index)
            dead.add(index)
            pending.extend(self.reads[index])
        return dead

    def _unread(self, index: int, gone: set[int], wanted: set[str]) -> bool:
        return not any(name in wanted or self.readers.get(name, set()) - gone for name in self.graph.node[index].output)

    def obstacle(
        self, origins: frozenset[int], inputs: Sequence[str], outputs: Sequence[str], place: int | None = None
    ) -> str | None:
        """Return why one node with these ``inputs`` and ``outputs`` cannot replace the nodes, or None if it can.

        ``place``: the index at which it comes, if not at the last one's.
        """
        nodes = self.graph.node
        computed = {name for index in origins for name in nodes[index].output if name}
        known = self.values
        missing = [name for name in outputs if name not in computed] + [name for name in inputs if name not in known]
        if missing:
            return f"{missing[0]} is not a value of the file: it arises when layers change places to match"
        gone = origins | self.dead_without(origins, inputs)
        for name in sorted(computed - set(outputs)):
            if name in self.graph_outputs:
                return f"{name}, which lies inside, is an output of the network as well"
            others = self.readers.get(name, set()) - gone
            if others:
                return f"{name}, which lies inside, is also used by {title(nodes[min(others)])}"
        position = max(origins) if place is None else place
        early = [self.producer[name] for name in inputs if self.producer.get(name, -1) > position]
        late = [i for name in outputs for i in self.readers.get(name, set()) - gone if i < position]
        if early or late:
            return "the nodes around it are in an order that leaves no place for one node"
        return None


def replaced(
    model: onnx.ModelProto,
    insertions: Sequence[Insertion],
    functions: Sequence[onnx.FunctionProto],
    initializers: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """Return a copy of the model with the nodes replaced, without values that only the old nodes needed."""
    uses = Uses(model.graph)
    taken = frozenset().union(*(insertion.origins for insertion in insertions))
    read = {name for insertion in insertions for node in insertion.nodes for name in node.input}
    gone = taken | uses.dead_without(taken, read)
    places = {max(each.origins) if each.place is None else each.place: each.nodes for each in insertions}
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(model.graph.node):
        if index in places:
            nodes.extend(places[index])
        elif index not in gone:
            nodes.append(node)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    remove_unused(graph, uses)
    weights = initializers_listed_as_inputs(model)  # in the version of the result, they could be overridden
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    names = {function.name for function in functions}
    kept = [f for f in model.functions if f.domain != DOMAIN or f.name not in names]
    del copy.functions[:]
    copy.functions.extend([*kept, *functions])
    if all(entry.domain != DOMAIN for entry in copy.opset_import):
        copy.opset_import.add(domain=DOMAIN, version=1)
    copy.ir_version = max(copy.ir_version, _FUNCTIONS_IR_VERSION)
    return copy


def remove_unused(graph: onnx.GraphProto, before: Uses) -> None:
    """Remove initializers that no node reads any more, and descriptions of removed values."""
    after = Uses(graph)
    known = set(after.producer) | {value.name for value in graph.input}
    unread = {name for name in before.readers if name not in after.readers and name not in after.graph_outputs}
    lost = set(before.producer) - known
    for entries in (graph.initializer, graph.value_info):
        doomed = unread | lost
        for index in reversed(range(len(entries))):
            if entries[index].name in doomed:
                del entries[index]


def title(node: onnx.NodeProto) -> str:
    """Return a node's operator and its name, or the name of its first output, for people."""
    return f"{node.op_type} {node.name or node.output[0]}"
