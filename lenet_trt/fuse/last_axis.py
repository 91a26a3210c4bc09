"""Define the rules that write softmax, norms and what is around them in one way (see ``normal_form.py``)."""

from __future__ import annotations

import math

import numpy as np

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

# From this opset on, a Softmax is over one axis; before it, over its axis and all that follow, as one.
_SOFTMAX_OF_ONE_AXIS = 13
_FP16_EXPONENTS = 13


def softmax(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write the axis of a ``Softmax``: -1 where it is the last one, else counted from the first one."""
    rank = graph.rank(node.inputs[0]) if node.is_op("Softmax") else None
    if rank is not None:
        default = 1 if graph.opsets.get("", 1) < _SOFTMAX_OF_ONE_AXIS else -1
        node.attributes = {"axis": _axis(node.attributes.get("axis", default), rank)}


def layer_normalization(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``LayerNormalization`` over the last axis as (x, scale, bias, epsilon=...), with zeros for no bias."""
    if not node.is_op("LayerNormalization") or any(graph.consumers(n) or n in graph.outputs for n in node.outputs[1:]):
        return
    rank = graph.rank(node.inputs[0])
    axis = node.attributes.get("axis", -1)
    if axis != -1 and (rank is None or _axis(axis, rank) != -1):
        return
    inputs = [name for name in node.inputs if name]
    scale = graph.constants.get(inputs[1])
    if len(inputs) == 2 and scale is not None:
        inputs.append(graph.add_constant(f"{node.outputs[0]}.zero_bias", np.zeros_like(scale)))
    kept = {name: value for name, value in node.attributes.items() if name != "axis"}
    epsilon = node.attributes.get("epsilon", float(np.float32(1e-5)))
    attributes = {**kept, "epsilon": epsilon}
    new = WorkingNode(node.op_type, inputs, node.outputs[:1], attributes, node.origins)
    graph.replace([node], [(node.slot, new)])


def top_k(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out the axis of a ``TopK`` where it is the last one, its default."""
    rank = graph.rank(node.inputs[0]) if node.is_op("TopK") and "axis" in node.attributes else None
    if rank is not None and _axis(node.attributes["axis"], rank) == -1:
        del node.attributes["axis"]


def mean_of_last_axis(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write the last axis of a ``ReduceMean`` as -1, in its attribute or in a constant."""
    rank = graph.rank(node.inputs[0]) if node.is_op("ReduceMean") else None
    if rank is None:
        return
    given = graph.constants.get(node.inputs[1]) if len(node.inputs) == 2 else None
    axes = given.tolist() if given is not None else node.attributes.get("axes")
    if not isinstance(axes, list) or [_axis(axis, rank) for axis in axes] != [-1]:
        return
    attributes = dict(node.attributes)
    inputs = list(node.inputs)
    if given is None:
        attributes["axes"] = [-1]
    else:
        inputs[1] = graph.add_constant(f"{node.outputs[0]}.axes", np.array([-1], np.int64))
    new = WorkingNode(node.op_type, inputs, list(node.outputs), attributes, node.origins)
    graph.replace([node], [(node.slot, new)])


def constants_second(graph: WorkingGraph, node: WorkingNode) -> None:
    """Put the constant of an ``Add`` or a ``Mul`` behind the computed operand."""
    if node.is_op("Add", "Mul") and node.inputs[0] in graph.constants and node.inputs[1] not in graph.constants:
        node.inputs = node.inputs[::-1]


def division_by_power_of_two(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Div`` by a constant power of two, as by the root of 64, by the ``Mul`` that gives the same."""
    divisor = graph.constants.get(node.inputs[1]) if node.is_op("Div") else None
    if divisor is None or divisor.size != 1 or divisor.dtype.kind not in "fV":
        return
    mantissa, exponent = math.frexp(float(divisor.item()))
    # Within these exponents the reciprocal is a normal number of every type.
    if mantissa == 0.5 and abs(exponent) <= _FP16_EXPONENTS:
        reciprocal = graph.add_constant(f"{node.inputs[1]}.reciprocal", np.asarray(1 / divisor, divisor.dtype))
        new = WorkingNode("Mul", [node.inputs[0], reciprocal], list(node.outputs), {}, node.origins)
        graph.replace([node], [(node.slot, new)])


def _axis(axis: int, rank: int) -> int:
    """Return -1 for the last axis, and count the others from the first one."""
    first = axis + rank if axis < 0 else axis
    return -1 if first == rank - 1 else first
