"""Find rotary positions: queries and keys that are turned by the angles of their tokens.

In the way of transformers, column i of a head and column i + d / 2 are a point of a plane:

    x * cos + Concat(-x[d / 2 :], x[: d / 2]) * sin

where cos and sin are [tokens, d], and the second half of a row repeats the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lenet_trt.fuse.movement import REPEATING, half_of, known_sizes_of, source_of
from lenet_trt.fuse.norm_nodes import RMS_NORM
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_LEAST_AXES = 4  # [n, heads, tokens, d]
_OF_EACH_NUMBER = ("Cos", "Sin", "Cast", "Unsqueeze", "Mul")


@dataclass(frozen=True)
class RotaryPositions:
    """Hold what is turned, the angles, and the nodes that turn it; the last one gives the result."""

    x: str
    cos: str
    sin: str
    nodes: tuple[WorkingNode, ...]


def rotary_positions(graph: WorkingGraph, name: str) -> RotaryPositions | None:
    """Return how a value [..., heads, tokens, d] is turned by its tokens, if it is."""
    add, sizes = graph.producer(name), known_sizes_of(graph, name)
    if add is None or not add.is_op("Add") or sizes is None or len(sizes) < _LEAST_AXES:
        return None
    products = [graph.producer(value) for value in add.inputs]
    if any(product is None or not product.is_op("Mul") for product in products):
        return None
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            continue
        for x, cos in (plain.inputs, plain.inputs[::-1]):
            for other, sin in (turned.inputs, turned.inputs[::-1]):
                halves = _exchanged_halves(graph, x, other)
                if halves and all(_is_angles(graph, each, sizes) for each in (cos, sin)):
                    return RotaryPositions(x, cos, sin, (plain, *halves, turned, add))
    return None


@dataclass(frozen=True)
class NormedRows:
    """Hold from where queries or keys come: they are moved, perhaps normalised, as in Qwen3, and moved again."""

    source: str
    early: list[tuple[WorkingNode, str]]
    norm: WorkingNode | None
    late: list[tuple[WorkingNode, str]]


def rows_before(graph: WorkingGraph, name: str) -> NormedRows:
    """Return from where a value comes, through an RMS norm of the normal form if there is one."""
    source, steps = source_of(graph, name)
    norm = graph.producer(source)
    if norm is None or not norm.is_op(RMS_NORM):
        return NormedRows(source, steps, None, [])
    return NormedRows(*source_of(graph, norm.inputs[0]), norm, steps)


def source_of_layer(graph: WorkingGraph, name: str) -> tuple[str, bool]:
    """Return the value from which an operand of an attention is moved and turned, and whether it is turned."""
    source = source_of(graph, name, REPEATING)[0]
    positions = rotary_positions(graph, source)
    return (source, False) if positions is None else (rows_before(graph, positions.x).source, True)


def _exchanged_halves(graph: WorkingGraph, x: str, name: str) -> list[WorkingNode] | None:
    """Return the nodes that give [-second half, first half] of the last axis of x."""
    concat, rank = graph.producer(name), graph.rank(x)
    if concat is None or not concat.is_op("Concat") or rank is None or len(concat.inputs) != 2:
        return None
    negative = graph.producer(concat.inputs[0])
    if negative is None or not negative.is_op("Neg") or concat.attributes.get("axis") not in (-1, rank - 1):
        return None
    halves = [negative.inputs[0], concat.inputs[1]]
    if [half_of(graph, half) for half in halves] != [(x, 1), (x, 0)]:
        return None
    givers = [node for node in map(graph.producer, halves) if node is not None]
    return list(dict.fromkeys([concat, negative, *givers]))


def _is_angles(graph: WorkingGraph, name: str, sizes: tuple[int, ...]) -> bool:
    """Return whether a value has an angle for each token and column, and its second half repeats the first one."""
    shape = known_sizes_of(graph, name)
    if shape is None or shape[-2:] != sizes[-2:] or len(shape) > len(sizes) or set(shape[:-2]) - {1}:
        return False
    return _repeats_itself(graph, name)


def _repeats_itself(graph: WorkingGraph, name: str) -> bool:
    """Return whether the second half of the last axis repeats the first one.

    It does in a constant, or where two of one tensor are joined; and behind that each number is computed for itself.
    """
    length = (graph.shape(name) or (None,))[-1]
    node = graph.producer(name)
    while node is not None and node.is_op(*_OF_EACH_NUMBER):
        if node.is_op("Mul") and getattr(graph.constants.get(node.inputs[1]), "size", 0) != 1:
            return False
        name = node.inputs[0]
        if (graph.shape(name) or (None,))[-1] != length:
            return False
        node = graph.producer(name)
    value = graph.constants.get(name)
    if value is not None:
        first, second = np.split(value, 2, axis=-1)
        return np.array_equal(first, second)
    if node is None or not node.is_op("Concat"):
        return False
    return (
        len(node.inputs) == 2
        and len(set(node.inputs)) == 1
        and node.attributes.get("axis") in (-1, (graph.rank(name) or 0) - 1)
    )
