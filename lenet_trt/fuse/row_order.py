"""Compute the dense layers around an attention before the movement of rows in front of them, and after it behind them.

A dense layer treats each row alone, so it may change places with what moves whole rows:

    Add(MatMul(moved(x), w), b)    is    moved(Add(MatMul(x, w), b))

In a Swin this brings windows, their shift and their return next to the attention; in torch.nn.MultiheadAttention the
transpositions that bring tokens first. A kernel that takes rows in these orders then does all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx

from lenet_trt.fuse.attention_products import Products, is_dense_layer, products_around
from lenet_trt.fuse.cut import Insertion, NewNodes, Uses, replaced
from lenet_trt.fuse.movement import OF_ALL, known_sizes_of, part_of_slice, source_of, written
from lenet_trt.fuse.rolls import Roll, roll_after, roll_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


@dataclass(frozen=True)
class _Layer:
    """Hold a dense layer in normal form, and the nodes that move its rows from ``source``, or to ``target``."""

    node: WorkingNode
    movement: list[WorkingNode]
    source: str
    target: str

    @property
    def origins(self) -> frozenset[int]:
        return self.node.origins.union(*(node.origins for node in self.movement))


def with_rows_in_order(
    model: onnx.ModelProto, graph: WorkingGraph, left: Set[str] = frozenset()
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with layers and movement exchanged, and for each attention the value that the movement gives.

    ``graph``: the model in the form in which attention is written in one way. ``left``: layers that give one of these
    values to an attention stay.
    """
    change = _Change(model, graph)
    pairs = [(before, after) for before, after in _around_attentions(graph) if before.target not in left]
    moved = frozenset(before.target for before, after in pairs if change.exchange(before, after))
    return (change.result() if moved else model), moved


def _around_attentions(graph: WorkingGraph) -> Iterable[tuple[_Layer, _Layer]]:
    """Yield the layers before and after each attention, where rows are moved on both sides."""
    for node in graph.nodes:
        products = products_around(graph, node)
        before = None if products is None else _layer_before(graph, products)
        after = None if products is None else _layer_after(graph, products)
        if before is not None and after is not None:
            yield before, after


def _layer_before(graph: WorkingGraph, products: Products) -> _Layer | None:
    """Return the layer that gives queries, keys and values."""
    names = {source_of(graph, name)[0] for name in products.operands}
    layer = graph.producer(names.pop()) if len(names) == 1 else None
    if layer is None or not is_dense_layer(graph, layer):
        return None
    movement: list[WorkingNode] = []
    name = layer.inputs[0]
    while (node := graph.producer(name)) is not None:
        nodes = _movement(graph, roll_of(graph, name), node)
        if not nodes:
            break
        movement = [*nodes, *movement]
        name = nodes[0].inputs[0]
    return _Layer(layer, movement, name, layer.outputs[0]) if _changes_order(movement) else None


def _layer_after(graph: WorkingGraph, products: Products) -> _Layer | None:
    """Return the layer that has the results."""
    layer = graph.only_consumer(products.output)
    while layer is not None and layer.is_op(*OF_ALL):
        layer = graph.only_consumer(layer.outputs[0])
    if layer is None or not is_dense_layer(graph, layer):
        return None
    movement: list[WorkingNode] = []
    name = layer.outputs[0]
    while True:
        nodes = _movement(graph, roll_after(graph, name), graph.only_consumer(name))
        if not nodes:
            break
        movement += nodes
        name = movement[-1].outputs[0]
    return _Layer(layer, movement, layer.inputs[0], name) if _changes_order(movement) else None


def _movement(graph: WorkingGraph, roll: Roll | None, node: WorkingNode | None) -> tuple[WorkingNode, ...]:
    """Return the nodes of a roll, or the one node, where they move rows; no nodes else."""
    one = (node,) if node is not None and node.is_op(*OF_ALL) else ()
    nodes = one if roll is None else roll.nodes
    return nodes if all(_moves_rows(graph, each) for each in nodes) else ()


def _moves_rows(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a node moves rows, and leaves the last axis as it is."""
    before, after = known_sizes_of(graph, node.inputs[0]), known_sizes_of(graph, node.outputs[0])
    if before is None or after is None or not before or not after or before[-1] != after[-1]:
        return False
    last = len(before) - 1
    if node.is_op("Transpose"):
        return list(node.attributes.get("perm", [0]))[-1] == last
    if node.is_op("Slice"):
        return all(axis != last for axis, _, _ in part_of_slice(graph, node) or [(last, 0, 0)])
    return node.is_op("Concat", *OF_ALL) and (
        not node.is_op("Concat") or node.attributes.get("axis", 0) % len(before) != last
    )


def _changes_order(movement: Iterable[WorkingNode]) -> bool:
    return any(node.is_op("Transpose", "Concat") for node in movement)


class _Change:
    """Collect what changes places in a model."""

    def __init__(self, model: onnx.ModelProto, graph: WorkingGraph) -> None:
        self._model = model
        self._graph = graph
        self._uses = Uses(model.graph)
        self._insertions: list[Insertion] = []
        self._new = NewNodes()

    def exchange(self, before: _Layer, after: _Layer) -> bool:
        """Exchange the layers around an attention with their movement, unless other nodes need what lies between."""
        taken = [each.origins for each in self._insertions]
        if any(origins & layer.origins for origins in taken for layer in (before, after)):
            return False
        if any(self._uses.obstacle(each.origins, [each.source], [each.target]) for each in (before, after)):
            return False
        features = f"{before.target}.in_order"
        self._layer(before.node, before.source, features)
        self._move(before.movement, before.source, features, before.target, self._features(before.node)[0])
        self._insert(before)
        results = f"{after.target}.in_order"
        self._move(after.movement, after.node.outputs[0], after.source, results, self._features(after.node)[1])
        self._layer(after.node, results, after.target)
        self._insert(after)
        return True

    def result(self) -> onnx.ModelProto:
        """Return the changed model."""
        return replaced(self._model, self._insertions, [], self._new.tensors)

    def _insert(self, layer: _Layer) -> None:
        self._insertions.append(Insertion(self._new.taken(), layer.origins))

    def _features(self, node: WorkingNode) -> tuple[int, int]:
        """Return the numbers of outputs and inputs of a layer."""
        outputs, inputs = self._graph.constants[node.inputs[1]].shape
        return outputs, inputs

    def _layer(self, node: WorkingNode, x: str, y: str) -> None:
        """Add a dense layer over the last axis."""
        weight, bias = ((f"{name}.in_order", self._graph.constants[name]) for name in node.inputs[1:])
        self._new.dense_layer(x, weight, bias, y)

    def _move(self, movement: Sequence[WorkingNode], first: str, x: str, y: str, width: int) -> None:
        """Add the nodes of a movement of rows from x to y, of this width; in the file they move ``first``."""
        names = {first: x, movement[-1].outputs[0]: y}
        for node in movement:
            output = names.setdefault(node.outputs[0], f"{node.outputs[0]}.in_order")
            inputs = [names[name] for name in node.inputs if name in names]
            if node.is_op("Transpose", "Concat"):
                self._new.add(node.op_type, inputs, output, **node.attributes)
            elif node.is_op("Slice"):
                ((axis, start, size),) = part_of_slice(self._graph, node) or [(0, 0, 0)]
                self._new.part(inputs[0], axis, start, size, output)
            else:
                shape = [*(known_sizes_of(self._graph, node.outputs[0]) or ())[:-1], width]
                target = self._new.constant(f"{output}.shape", np.array(written(shape), np.int64))
                self._new.add("Reshape", [*inputs, target], output)
