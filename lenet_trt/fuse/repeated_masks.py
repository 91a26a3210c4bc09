"""Define the rule that lets a mask which is expanded over the queries have one row for all of them.

transformers' masks of padding are [n, 1, 1, keys], and expanded to [n, 1, queries, keys] before a ``Where`` makes
numbers of the booleans. The rule computes them without that expansion, by nodes without origins that read values of
the file: a kernel then reads a row for each text, and TensorRT computes as little.

Source: what torch's exporters write for transformers' ``create_bidirectional_mask``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lenet_trt.fuse.folding import computed_constant
from lenet_trt.fuse.working_copy import Array, PartialShape, WorkingGraph, WorkingNode

# Operators that compute element by element, of which exporters make masks.
_ELEMENTWISE = ("Add", "And", "Cast", "Mul", "Not", "Or", "Sub", "Where")
_QUERIES = -2  # the axis


def one_row_for_all_queries(graph: WorkingGraph, node: WorkingNode) -> None:
    """Add a mask without its expansion over the queries to the scores, which have all of them."""
    add = graph.producer(node.inputs[0]) if node.is_op("Softmax") else None
    if add is None or not add.is_op("Add") or add.attributes:
        return
    scores, mask = add.inputs
    shape = graph.shape(scores)
    if shape is None or None in shape or shape != graph.shape(add.outputs[0]) or mask in graph.constants:
        return  # what is expanded may be more than the mask
    row = _one_row(graph, mask)
    if row is not None and row != mask:
        new = WorkingNode("Add", [scores, row], list(add.outputs), {}, add.origins)
        graph.replace([add], [(add.slot, new)])


def _one_row(graph: WorkingGraph, name: str) -> str | None:
    """Return a value with one query that gives this one when it is expanded, also over other axes; None without one."""
    shape = graph.shape(name)
    if shape is None or len(shape) < -_QUERIES:
        return None
    if shape[_QUERIES] == 1:
        return name
    constant = computed_constant(graph, name)
    if constant is not None:
        return _row_of_constant(graph, name, constant)
    node = graph.producer(name)
    if node is not None and node.is_op("Expand"):
        return _one_row(graph, node.inputs[0])
    return _computed_row(graph, name, node) if node is not None and node.is_op(*_ELEMENTWISE) else None


def _row_of_constant(graph: WorkingGraph, name: str, value: Array) -> str | None:
    """Return a new constant with one row of a mask whose rows are equal."""
    row = value[..., :1, :]
    return graph.add_constant(f"{name}.row", row) if np.array_equal(np.broadcast_to(row, value.shape), value) else None


def _computed_row(graph: WorkingGraph, name: str, node: WorkingNode) -> str | None:
    """Return what a node gives of operands that have one row."""
    made = f"{name}.row"
    known = graph.producer(made)
    if known is not None and not known.origins:
        return made  # for another attention
    if graph.shape(made) is not None:
        return None  # the file has another value of this name
    true = [value is not None and value.dtype == bool and bool(value.all()) for value in _constants(graph, node)]
    if node.is_op("And") and any(true):
        return _one_row(graph, node.inputs[1 - true.index(True)])
    operands = [each if _has_no_queries(graph, each) else _one_row(graph, each) for each in node.inputs]
    inputs = [each for each in operands if each is not None]
    result = _broadcast(graph.shape(each) for each in inputs)
    if len(inputs) < len(operands) or result is None:
        return None
    graph.insert(WorkingNode(node.op_type, inputs, [made], node.attributes, frozenset()), node.slot + 1)
    graph.learn_shape(made, result, like=name)
    return made


def _constants(graph: WorkingGraph, node: WorkingNode) -> list[Array | None]:
    return [computed_constant(graph, name) for name in node.inputs]


def _has_no_queries(graph: WorkingGraph, name: str) -> bool:
    rank = graph.rank(name)
    return rank is not None and rank < -_QUERIES


def _broadcast(shapes: Iterable[PartialShape | None]) -> PartialShape | None:
    """Return the shape of what is computed element by element; None where it is not known."""
    known = [shape for shape in shapes if shape is not None and None not in shape]
    rank = max(map(len, known), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in known]
    sizes = [{size for size in axis if size != 1} or {1} for axis in zip(*padded, strict=True)]
    return tuple(size for (size,) in sizes) if known and all(len(axis) == 1 for axis in sizes) else None
