"""Compute the layer norm of a sum before another shape of it is made, so that a kernel can take both.

timm's Swin folds the image between a residual connection and the norm behind it:

    LayerNormalization(Reshape(a + b))    is    Reshape(LayerNormalization(a + b))

where the last axis stays.
"""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.cut import Insertion, Uses, replaced
from lenet_trt.fuse.working_copy import WorkingGraph


def with_norms_of_sums(model: onnx.ModelProto, graph: WorkingGraph) -> onnx.ModelProto:
    """Return the model with such norms right behind their sums; the given model where there is none.

    ``graph``: the model's plain form, which knows the shapes.
    """
    uses, nodes = Uses(model.graph), model.graph.node
    insertions: list[Insertion] = []
    taken: set[int] = set()
    for index, norm in enumerate(nodes):
        found = _sum_and_view(model.graph, uses, norm)
        if found is None or found[0] in taken or not _stays(graph, norm, found[1]):
            continue
        at, view = found
        if any(uses.producer.get(name, -1) > at for name in norm.input[1:]):
            continue  # the weights come later
        taken.add(at)
        target = numpy_helper.from_array(graph.constants[view.input[1]])
        insertions.append(Insertion((nodes[at], *_exchanged(norm, view, target)), frozenset({at, index}), at))
    return replaced(model, insertions, [], []) if insertions else model


def _sum_and_view(graph: onnx.GraphProto, uses: Uses, node: onnx.NodeProto) -> tuple[int, onnx.NodeProto] | None:
    """Return the index of a sum, and the ``Reshape`` of it that a norm reads."""
    if node.op_type != "LayerNormalization" or node.domain or any(node.output[1:]):
        return None
    at = uses.producer.get(node.input[0])
    view = None if at is None else graph.node[at]
    if view is None or view.op_type != "Reshape" or view.domain:
        return None
    before = uses.producer.get(view.input[0])
    return None if before is None or graph.node[before].op_type != "Add" else (before, view)


def _stays(graph: WorkingGraph, node: onnx.NodeProto, view: onnx.NodeProto) -> bool:
    """Return whether the norm is over the last axis, and the ``Reshape`` leaves that as it is."""
    before, after = graph.shape(view.input[0]), graph.shape(view.output[0])
    if view.input[1] not in graph.constants:
        return False
    if not before or not after or not isinstance(after[-1], int) or before[-1] != after[-1]:
        return False
    axis = next((entry.i for entry in node.attribute if entry.name == "axis"), -1)
    return axis in (-1, len(after) - 1)


def _exchanged(norm: onnx.NodeProto, view: onnx.NodeProto, target: onnx.TensorProto) -> tuple[onnx.NodeProto, ...]:
    """Return the norm of the sum, and the ``Reshape`` of it to the target."""
    of_sum = f"{norm.output[0]}.of_sum"
    first = onnx.NodeProto()
    first.CopyFrom(norm)
    first.input[0], first.output[:] = view.input[0], [of_sum]
    kept = [entry for entry in norm.attribute if entry.name != "axis"]
    del first.attribute[:]
    first.attribute.extend([*kept, helper.make_attribute("axis", -1)])
    shape = helper.make_node("Constant", [], [f"{of_sum}.shape"], name=f"{of_sum}.shape", value=target)
    back = helper.make_node("Reshape", [of_sum, *shape.output], norm.output, name=f"{of_sum}.back")
    return first, shape, back
