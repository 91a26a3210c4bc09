"""Put constants in the place of what computes sizes in a model, so that nothing reads layers for their sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.cut import Insertion, Uses, replaced
from lenet_trt.fuse.working_copy import WorkingGraph
from lenet_trt.onnx_model.open_sizes import Size

# Before this version, a ``Constant`` has floats.
_CONSTANTS_OF_NUMBERS_OPSET = 9


def with_known_sizes(model: onnx.ModelProto, graph: WorkingGraph) -> onnx.ModelProto:
    """Return the model with constants in the place of ``Shape`` and of what is computed of sizes that are known.

    A ``Shape`` with open sizes takes these from the inputs of the network.
    """
    if graph.opsets.get("", 1) < _CONSTANTS_OF_NUMBERS_OPSET:
        return model
    uses = Uses(model.graph)
    nodes = model.graph.node
    known = _computed_of_sizes(nodes, graph)
    insertions = []
    for index in sorted(known):
        read = [name for name in nodes[index].output if uses.readers.get(name, set()) - known]
        if read:
            values = [numpy_helper.from_array(np.asarray(graph.constants[name], order="C")) for name in read]
            constants = [
                helper.make_node("Constant", [], [name], name=f"{name}.known", value=value)
                for name, value in zip(read, values, strict=True)
            ]
            insertions.append(Insertion(tuple(constants), frozenset({index})))
    insertions += [
        Insertion(new, frozenset({index}))
        for index, node in enumerate(nodes)
        if index not in known and _is_read(uses, node, known) and (new := _shape_from_inputs(graph, node))
    ]
    return replaced(model, insertions, [], []) if insertions else model


def _computed_of_sizes(nodes: Sequence[onnx.NodeProto], graph: WorkingGraph) -> set[int]:
    """Return the nodes whose results are known and come from a ``Shape``; weights that are moved stay in the file."""
    found: set[int] = set()
    sizes = {node.output[0] for node in nodes if node.op_type == "Shape"}
    for index, node in enumerate(nodes):
        of_sizes = node.op_type == "Shape" or not sizes.isdisjoint(node.input)
        if of_sizes and not node.domain and all(name in graph.constants for name in node.output):
            found.add(index)
            sizes.update(node.output)
    return found


def _is_read(uses: Uses, node: onnx.NodeProto, known: set[int]) -> bool:
    """Return whether the first result of a node is an output, or read by others than those whose results are known."""
    name = node.output[0]
    return name in uses.graph_outputs or bool(uses.readers.get(name, set()) - known)


def _shape_from_inputs(graph: WorkingGraph, node: onnx.NodeProto) -> tuple[onnx.NodeProto, ...]:
    """Return nodes that compute what a ``Shape`` does, of the inputs' open sizes; nothing where that is not known."""
    shape = None if node.op_type != "Shape" or node.domain or node.attribute else graph.shape(node.input[0])
    if shape is None or node.input[0] in graph.inputs or all(isinstance(size, int) for size in shape):
        return ()
    axes = {size: (name, axis) for name in graph.inputs for axis, size in enumerate(graph.shape(name) or ())}
    nodes: list[onnx.NodeProto] = []

    def computed(op_type: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{node.output[0]}.{len(nodes)}"
        nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def number(value: int) -> str:
        return computed("Constant", [], value=numpy_helper.from_array(np.array([value], np.int64)))

    parts = []
    for size in shape:
        if isinstance(size, int):
            parts.append(number(size))
            continue
        known = Size.of_axis(size or "")
        if len(known.names) != 1 or known.names[0] not in axes:
            return ()
        source, axis = axes[known.names[0]]
        parts.append(computed("Gather", [computed("Shape", [source]), number(axis)]))
        if known.factor > 1:
            parts[-1] = computed("Mul", [parts[-1], number(known.factor)])
    return *nodes, helper.make_node("Concat", parts, node.output, name=node.name, axis=0)
