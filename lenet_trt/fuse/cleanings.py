"""Bring single nodes into the normal form: what changes nothing is left out, and defaults are not written."""

from __future__ import annotations

import onnx
from onnx import helper

from lenet_trt.fuse.flattening import is_flatten
from lenet_trt.fuse.rewriting import any_is_read, replace_by_one
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def zero_points(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out the zero point of a ``DequantizeLinear`` where it is 0, its default."""
    if node.is_op("DequantizeLinear") and len(node.inputs) == 3:
        zero = graph.constants.get(node.inputs[2])
        if zero is not None and not zero.any():
            node.inputs = node.inputs[:2]


def no_ops(graph: WorkingGraph, node: WorkingNode) -> None:
    """Remove ``Identity``, ``Dropout`` outside training, and ``Slice``, ``Pad`` and ``Reshape`` that change nothing."""
    if node.is_op("Dropout"):
        training = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
        dropped = len(node.inputs) > 2 and node.inputs[2] and (training is None or training.any())
        if dropped or any_is_read(graph, node.outputs[1:]):
            return
    elif not (node.is_op("Identity") or _keeps_all(graph, node)):
        return
    graph.skip(node, node.inputs[0])


def factors_of_one(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take a ``Div`` or a ``Mul`` by 1 into the node in front of it; a plugin there replaces both.

    diffusers divides each sum with a residual by a factor, 1 by default. TensorRT computes such a division.
    """
    if not node.is_op("Div", "Mul"):
        return
    first, second = node.inputs
    sides = [(first, second)] if node.op_type == "Div" else [(first, second), (second, first)]
    value = next((value for value, factor in sides if _is_one_for(graph, factor, value)), None)
    if value is None:
        return
    before = graph.producer(value)
    if before is None or graph.only_consumer(value) is not node or before.captured or before.domain:
        graph.skip(node, value)
        return
    outputs = [node.outputs[0] if name == value else name for name in before.outputs]
    replace_by_one(graph, [before, node], before.slot, before.op_type, before.inputs, outputs, before.attributes)


def empty_parts(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out what has no elements of a ``Concat``, and the ``Concat`` where one tensor remains.

    transformers' Phi-3 joins the part of each head that is turned, all of it here, and the part that is not.
    """
    shapes = [graph.shape(name) for name in node.inputs] if node.is_op("Concat") else []
    kept = [name for name, shape in zip(node.inputs, shapes, strict=False) if shape is None or 0 not in shape]
    if len(kept) == 1 < len(node.inputs):
        graph.skip(node, kept[0])
    elif 1 < len(kept) < len(node.inputs):
        node.inputs = kept


def defaults(graph: WorkingGraph, node: WorkingNode) -> None:
    """Remove attributes that have the operator's default value."""
    if node.domain or not onnx.defs.has(node.op_type):
        return
    schema = onnx.defs.get_schema(node.op_type, graph.opsets.get("", 1))
    for name, declared in schema.attributes.items():
        if name in node.attributes and declared.default_value.name:
            default = helper.get_attribute_value(declared.default_value)
            default = default.decode() if isinstance(default, bytes) else default
            if node.attributes[name] == default:
                del node.attributes[name]


def flattening(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape`` to [batch, everything else], by constants or computed from ``Shape``, by ``Flatten``."""
    if node.is_op("Flatten"):
        axis = node.attributes.get("axis", 1)
        rank = graph.rank(node.inputs[0])
        if axis == 1 or (rank is not None and axis + rank == 1):
            node.attributes = {}
    elif node.is_op("Reshape") and is_flatten(graph, node):
        replace_by_one(graph, [node], node.slot, "Flatten", node.inputs[:1], node.outputs, {})


def _is_one_for(graph: WorkingGraph, factor: str, value: str) -> bool:
    """Return whether a factor is 1, and has no more axes than what it multiplies."""
    one, rank = graph.constants.get(factor), graph.rank(value)
    if one is None or one.size != 1 or one.dtype.kind not in "fV" or rank is None or one.ndim > rank:
        return False
    return float(one.item()) == 1.0


def _keeps_all(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a ``Slice``, a ``Pad`` or a ``Reshape`` gives what it has."""
    shape = graph.shape(node.inputs[0]) if node.is_op("Slice", "Pad", "Reshape") else None
    if shape is None or shape != graph.shape(node.outputs[0]):
        return False
    if node.is_op("Reshape"):  # the number of elements stays, so one size follows from the others
        return shape.count(None) <= 1 and 0 not in shape
    if None in shape:
        return False
    given = graph.constants.get(node.inputs[1]) if node.is_op("Pad") and len(node.inputs) > 1 else None
    if node.is_op("Pad"):
        return given is not None and not given.any()
    steps = graph.constants.get(node.inputs[4]) if len(node.inputs) > 4 else None
    return len(node.inputs) in (3, 4) or (steps is not None and bool((steps > 0).all()))
