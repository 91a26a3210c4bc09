"""Put constants in the place of what computes sizes in a model, so that nothing reads layers for their sizes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.cut import Insertion, Uses, replaced
from lenet_trt.fuse.working_copy import WorkingGraph
from lenet_trt.onnx_model.open_sizes import Size


def with_known_sizes(model: onnx.ModelProto, graph: WorkingGraph) -> onnx.ModelProto:
    """Return the model with constants in the place of what computes values that are known, such as sizes.

    A ``Shape`` with open sizes takes these from the inputs of the network.
    """
    uses = Uses(model.graph)
    nodes = model.graph.node
    known = {
        index
        for index, node in enumerate(nodes)
        if node.op_type != "Constant" and not node.domain and all(name in graph.constants for name in node.output)
    }
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
        if index not in known and (new := _shape_from_inputs(graph, node))
    ]
    return replaced(model, insertions, [], []) if insertions else model


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
