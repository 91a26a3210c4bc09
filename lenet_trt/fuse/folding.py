"""Turn what is known before a network runs into constants: rearranged weights, and sizes computed from ``Shape``."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.fuse.working_copy import Array, PartialShape, WorkingGraph, WorkingNode, attribute_protos, count
from lenet_trt.kernel.saturate import quantize

_FOLDABLE = ("Identity", "Transpose", "Reshape", "Cast", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Concat")
_FOLD_LIMIT_BYTES = 1 << 30
# What exporters compute sizes with, and factors such as 1 / sqrt(size).
_ARITHMETIC = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Pow", "Sqrt", "Reciprocal", "Ceil", "Floor", "Clip", "Max", "Min"),
    *("Cast", "Concat", "Gather", "Slice", "Squeeze", "Unsqueeze"),
)
_MOST_SIZES = 64
# Operators of which exporters make the masks that depend on no input, and the most elements of such a mask.
_LARGEST_MASK = 1 << 24
_OF_MASKS = (
    *("Add", "Sub", "Mul", "Neg", "Cast", "Concat", "ConstantOfShape", "Equal", "Expand", "Flatten", "Gather"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not", "Range", "Reshape", "ScatterND"),
    *("Slice", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where"),
)


def constant_folding(graph: WorkingGraph, node: WorkingNode) -> None:
    """Turn ``Constant`` nodes, and rearrangements and quantizations of constants, into constants."""
    if node.is_op("Constant"):
        value = _constant_value(node)
        if value is not None:
            graph.remove(node)
            graph.constants[node.outputs[0]] = value
    elif node.is_op(*_FOLDABLE) and node.inputs:
        values = [graph.constants.get(name) for name in node.inputs]
        if all(value is not None and value.nbytes < _FOLD_LIMIT_BYTES for value in values):
            graph.remove(node)
            graph.constants[node.outputs[0]] = _evaluate(graph, node, values)
    elif node.is_op("QuantizeLinear") and len(node.inputs) == 3 and node.attributes.keys() <= {"axis"}:
        given = [graph.constants.get(name) for name in node.inputs]
        value, scale, zero = given
        if value is not None and scale is not None and zero is not None:
            graph.remove(node)
            axis = node.attributes.get("axis", 1)
            graph.constants[node.outputs[0]] = quantize(value, scale, zero.dtype.name, zero, axis)


def known_sizes(graph: WorkingGraph, node: WorkingNode) -> None:
    """Turn sizes into constants, and what is computed from such sizes; exporters with an open batch write both."""
    if node.is_op("Shape") and not node.attributes:
        known = _all_known(graph.shape(node.inputs[0]))
    elif node.is_op("Gather", "Slice"):
        known = _taken(graph, node)
    elif node.is_op("ConstantOfShape"):
        known = _filled(graph, node)
    else:
        known = None
    if known is None and node.is_op(*_ARITHMETIC):
        known = _computed(graph, node)
    if known is not None:
        graph.remove(node)
        graph.constants[node.outputs[0]] = known


def reshaped(graph: WorkingGraph, node: WorkingNode) -> None:
    """Find the shape that a ``Reshape`` gives where only some sizes of its target are known.

    ONNX's inference does so from opset 13 on: before that, it does not look through ``Unsqueeze``.
    """
    if not node.is_op("Reshape"):
        return
    seen, concat = graph.shape(node.outputs[0]), graph.producer(node.inputs[1])
    if _all_known(seen) is not None or concat is None or not concat.is_op("Concat"):
        return
    shape: list[int | None] = []
    for name in concat.inputs:
        sizes, length = graph.constants.get(name), graph.shape(name)
        if sizes is not None:
            shape += [int(size) if size > 0 else None for size in sizes.flat]
        elif length is not None and len(length) == 1 and isinstance(length[0], int):
            shape += [None] * length[0]
        else:
            return
    before = (None,) * len(shape) if seen is None else seen
    merged = tuple(old if new is None else new for old, new in zip(before, shape, strict=True))
    graph.learn_shape(node.outputs[0], merged)


def computed_constant(graph: WorkingGraph, name: str) -> Array | None:
    """Return a value that is computed from constants alone, as a mask is; the graph keeps its nodes."""
    return _from_constants(graph, name, {})


def _from_constants(graph: WorkingGraph, name: str, found: dict[str, Array | None]) -> Array | None:
    """Return a value that is computed from constants alone; ``found``: what was computed so far."""
    if name in graph.constants:
        return graph.constants[name]
    if name not in found:
        found[name] = None
        node, shape = graph.producer(name), graph.shape(name)
        size = None if shape is None else count(shape)
        if node is not None and node.is_op(*_OF_MASKS) and size is not None and size <= _LARGEST_MASK:
            values = [_from_constants(graph, each, found) if each else None for each in node.inputs]
            if all(value is not None for value, each in zip(values, node.inputs, strict=True) if each):
                found[name] = _evaluate(graph, node, values)
    return found[name]


def _computed(graph: WorkingGraph, node: WorkingNode) -> Array | None:
    """Return what arithmetic of a few whole numbers, or of single floats, gives."""
    found = [graph.constants.get(name) for name in node.inputs]
    values = [value for value in found if value is not None and value.size <= _most(value)]
    if not values or len(values) < sum(map(bool, node.inputs)):  # "" stands for an absent one, as a bound of ``Clip``
        return None
    whole = all(value.dtype.kind == "i" for value in values)
    if whole and node.is_op("Div", "Mod") and not (np.all(values[0] >= 0) and np.all(values[1] > 0)):
        return None  # ONNX rounds negative quotients towards zero, NumPy does not
    with np.errstate(all="ignore"):
        return _evaluate(graph, node, found)


def _most(value: Array) -> int:
    return {"i": _MOST_SIZES, "f": 1, "V": 1}.get(value.dtype.kind, -1)  # V: bfloat16


def _all_known(shape: PartialShape | None) -> Array | None:
    if shape is None or not all(isinstance(size, int) for size in shape):
        return None
    return np.array(shape, dtype=np.int64)


def _taken(graph: WorkingGraph, node: WorkingNode) -> Array | None:
    """Return the sizes that a ``Gather`` or ``Slice`` takes from a ``Shape``, where these are known."""
    source = graph.producer(node.inputs[0])
    shape = graph.shape(source.inputs[0]) if source is not None and source.is_op("Shape") else None
    rest = [graph.constants.get(name) for name in node.inputs[1:]]
    if shape is None or source is None or source.attributes or any(value is None for value in rest):
        return None
    try:
        positions = _evaluate(graph, node, [np.arange(len(shape)), *rest])
    except (IndexError, ValueError):
        return None  # it takes more than there is, and the file is wrong
    taken = _all_known(tuple(shape[int(position)] for position in positions.flat))
    return None if taken is None else taken.reshape(positions.shape)


def _filled(graph: WorkingGraph, node: WorkingNode) -> Array | None:
    """Return a few equal numbers, as torch writes for the sides that a ``Pad`` leaves as they are."""
    shape = graph.constants.get(node.inputs[0])
    return None if shape is None or np.prod(shape) > _MOST_SIZES else _evaluate(graph, node, [shape])


def _constant_value(node: WorkingNode) -> Array | None:
    for name, value in node.attributes.items():
        if isinstance(value, onnx.AttributeProto) and name == "value":
            return numpy_helper.to_array(value.t)
        if name in ("value_int", "value_ints"):
            return np.array(value, dtype=np.int64)
        if name in ("value_float", "value_floats"):
            return np.array(value, dtype=np.float32)
    return None  # sparse and string constants stay nodes


def _evaluate(graph: WorkingGraph, node: WorkingNode, values: list[Array | None]) -> Array:
    names = [f"input{index}" for index in range(len(values))]
    proto = helper.make_node(node.op_type, names, ["output"])
    proto.attribute.extend(attribute_protos(node))
    make = helper.make_tensor_value_info
    inputs = [
        make(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in zip(names, values, strict=True)
        if value is not None
    ]
    output = onnx.ValueInfoProto(name="output")
    model = helper.make_model(
        helper.make_graph([proto], "fold", inputs, [output]),
        opset_imports=[helper.make_opsetid("", graph.opsets.get("", 1))],
    )
    (result,) = ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))
    return np.asarray(result)
