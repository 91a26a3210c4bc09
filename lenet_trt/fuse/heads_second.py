"""Bring the heads before the tokens next to the products of an attention, behind norms and what joins tokens.

Layers give the heads of a token side by side, [n, tokens, heads, d], and a product wants [n, heads, tokens, d]. Some
networks normalise queries and keys in between, and diffusion transformers join the tokens of image and text there:

    Concat(norm(Transpose(a)), norm(Transpose(b)), axis=2)    is    Transpose(Concat(norm(a), norm(b), axis=1))

for norms over the last axis. A kernel that takes heads second then moves nothing. Tokens are joined as the layers give
them, [n, tokens, features].
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx

from lenet_trt.fuse.attention_products import Products, products_around
from lenet_trt.fuse.cut import Insertion, NewNodes, Uses, replaced
from lenet_trt.fuse.norm_nodes import RMS_NORM
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_SWAPPED = [0, 2, 1, 3]  # the attribute perm of a ``Transpose`` of heads and tokens
_FIRST, _SECOND = 2, 1  # the axis of tokens where heads come first, and where they come second


@dataclass(frozen=True)
class _Part:
    """Hold the ``Transpose`` of some tokens, and the norm behind it, if there is one."""

    transpose: WorkingNode
    norm: WorkingNode | None

    @property
    def nodes(self) -> tuple[WorkingNode, ...]:
        return (self.transpose,) if self.norm is None else (self.transpose, self.norm)


@dataclass(frozen=True)
class _Operand:
    """Hold queries, keys or values: the parts of their tokens, and the ``Concat`` that joins them, if there is one."""

    name: str
    heads: int
    parts: tuple[_Part, ...]
    joint: WorkingNode | None

    @property
    def sources(self) -> list[str]:
        """Return what is transposed: [n, tokens, heads, d]."""
        return [part.transpose.inputs[0] for part in self.parts]

    @property
    def origins(self) -> frozenset[int]:
        nodes = [node for part in self.parts for node in part.nodes]
        return frozenset().union(*(node.origins for node in (*nodes, *([] if self.joint is None else [self.joint]))))


def with_heads_second(
    model: onnx.ModelProto, graph: WorkingGraph, left: Set[str] = frozenset()
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with these transpositions behind norms and joints, and the values that they give now.

    ``graph``: the model in the form in which attention is written in one way. ``left``: an attention of one of these
    values stays as it is.
    """
    uses, new = Uses(model.graph), NewNodes()
    insertions: list[Insertion] = []
    moved: set[str] = set()
    for node in graph.nodes:
        products = products_around(graph, node)
        operands = [] if products is None else _operands(model, graph, products)
        taken = frozenset().union(*(insertion.origins for insertion in insertions))
        if any(operand.name in left or operand.origins & taken for operand in operands):
            continue
        if any(uses.obstacle(operand.origins, operand.sources, [operand.name]) for operand in operands):
            continue
        for operand in operands:
            _add(model, operand, new)
            insertions.append(Insertion(new.taken(), operand.origins))
            moved.add(operand.name)
    return (replaced(model, insertions, [], new.tensors) if insertions else model), frozenset(moved)


def _operands(model: onnx.ModelProto, graph: WorkingGraph, products: Products) -> list[_Operand]:
    """Return the operands with something behind their transpositions; none where not all three are transposed."""
    found = [_operand(graph, name) for name in dict.fromkeys(products.operands)]
    operands = [operand for operand in found if operand is not None]
    norms = [part.norm for operand in operands for part in operand.parts if part.norm is not None]
    if len(operands) < len(products.operands) or not all(_is_alone(model, graph, norm) for norm in norms):
        return []
    return [operand for operand in operands if operand.joint is not None or operand.parts[0].norm is not None]


def _operand(graph: WorkingGraph, name: str) -> _Operand | None:
    joint, shape = graph.producer(name), graph.shape(name)
    if shape is None or len(shape) != len(_SWAPPED) or not isinstance(shape[1], int):
        return None
    if joint is not None and not (joint.is_op("Concat") and joint.attributes["axis"] % len(shape) == _FIRST):
        joint = None
    parts = [_part(graph, each) for each in ([name] if joint is None else joint.inputs)]
    known = tuple(part for part in parts if part is not None)
    return _Operand(name, shape[1], known, joint) if len(known) == len(parts) else None


def _part(graph: WorkingGraph, name: str) -> _Part | None:
    norm = graph.producer(name)
    if norm is not None and not norm.is_op(RMS_NORM):
        norm = None
    transpose = graph.producer(name if norm is None else norm.inputs[0])
    if transpose is None or not transpose.is_op("Transpose") or transpose.attributes.get("perm") != _SWAPPED:
        return None
    return _Part(transpose, norm)


def _is_alone(model: onnx.ModelProto, graph: WorkingGraph, norm: WorkingNode) -> bool:
    """Return whether the nodes of a norm read only what is normalised, each other and constants, in the file too."""
    nodes = [model.graph.node[index] for index in norm.origins]
    known = {norm.inputs[0], *(name for node in nodes for name in node.output)}
    return all(name in known or name in graph.constants for node in nodes for name in node.input if name)


def _add(model: onnx.ModelProto, operand: _Operand, new: NewNodes) -> None:
    """Add an operand whose ``Transpose`` comes last."""
    (first, *others), name = [_normed(model, part, new) for part in operand.parts], operand.name
    if operand.joint is not None:
        parts = [_viewed(new, part, [-1], f"{name}.part{index}") for index, part in enumerate([first, *others])]
        new.add("Concat", parts, f"{name}.features", axis=_SECOND)
        first = _viewed(new, f"{name}.features", [operand.heads, -1], f"{name}.heads_second")
    new.add("Transpose", [first], name, perm=_SWAPPED)


def _viewed(new: NewNodes, name: str, features: Sequence[int], view: str) -> str:
    """Add a view of tokens, [n, tokens, *features], and return its name."""
    new.add("Reshape", [name, new.constant(f"{view}.shape", np.array([0, 0, *features], np.int64))], view)
    return view


def _normed(model: onnx.ModelProto, part: _Part, new: NewNodes) -> str:
    """Return the tokens of a part with heads second, normalised by copies of the norm's nodes."""
    before, after = part.transpose.inputs[0], part.transpose.outputs[0]
    if part.norm is None:
        return before
    nodes = [model.graph.node[index] for index in sorted(part.norm.origins)]
    names = new.copies(nodes, {after: before}, ".heads_second")
    return names[part.norm.outputs[0]]
