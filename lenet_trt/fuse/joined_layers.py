"""Join the dense layers that give queries, keys and values to an attention, where all of them read the same rows.

Three layers become one, and slices of its outputs:

    x wq^T + bq,  x wk^T + bk,  x wv^T + bv    are parts of    x [wq wk wv]^T + [bq bk bv]

A kernel that takes queries, keys and values as parts of one tensor copies none of them, and one product of three times
as many outputs is two launches less and divides better among the multiprocessors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.attention_products import is_dense_layer, products_around
from lenet_trt.fuse.cut import Insertion, Uses, replaced
from lenet_trt.fuse.movement import source_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def with_joined_layers(model: onnx.ModelProto, graph: WorkingGraph) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with these layers joined, and their queries, keys and values, which are slices now.

    ``graph``: the model in the form in which attention is written in one way.
    """
    uses = Uses(model.graph)
    insertions: list[Insertion] = []
    tensors: list[onnx.TensorProto] = []
    sliced: set[str] = set()
    for node in graph.nodes:
        layers = _layers_before(graph, node)
        if layers is None:
            continue
        origins = frozenset().union(*(layer.origins for layer in layers))
        if any(origins & other.origins for other in insertions):
            continue
        outputs = [layer.outputs[0] for layer in layers]
        first = min(max(layer.origins) for layer in layers)
        if uses.obstacle(origins, layers[0].inputs[:1], outputs, first):
            continue
        nodes, constants = _joined(graph, layers)
        insertions.append(Insertion(nodes, origins, first))
        tensors += constants
        sliced.update(outputs)
    return (replaced(model, insertions, [], tensors) if insertions else model), frozenset(sliced)


def _layers_before(graph: WorkingGraph, softmax: WorkingNode) -> list[WorkingNode] | None:
    """Return the layers of the queries, keys and values of an attention, if they are three alike with one input."""
    products = products_around(graph, softmax)
    if products is None:
        return None
    layers = [graph.producer(source_of(graph, name)[0]) for name in products.operands]
    found = [layer for layer in layers if layer is not None and is_dense_layer(graph, layer)]
    alike = {(layer.inputs[0], graph.constants[layer.inputs[1]].shape) for layer in found}
    return found if len({layer.outputs[0] for layer in found}) == 3 and len(alike) == 1 else None


def _joined(
    graph: WorkingGraph, layers: Sequence[WorkingNode]
) -> tuple[tuple[onnx.NodeProto, ...], list[onnx.TensorProto]]:
    """Return the nodes of one layer and the slices of its outputs, and their constants."""
    name = f"{layers[0].outputs[0]}.joined"
    weights, biases = ([graph.constants[layer.inputs[which]] for layer in layers] for which in (1, 2))
    axis = len(graph.shape(layers[0].outputs[0]) or ()) - 1
    width = len(weights[0])
    tensors: list[onnx.TensorProto] = []

    def constant(what: str, value: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), f"{name}.{what}"))
        return tensors[-1].name

    def node(op_type: str, inputs: Sequence[str], output: str) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [output], name=output)

    ends = [constant(f"end{index}", np.array([index * width], np.int64)) for index in range(len(layers) + 1)]
    along = constant("axis", np.array([axis], np.int64))
    nodes = [
        node("MatMul", [layers[0].inputs[0], constant("weights", np.concatenate(weights).T)], f"{name}.product"),
        node("Add", [f"{name}.product", constant("bias", np.concatenate(biases))], name),
    ]
    for layer, start, end in zip(layers, ends, ends[1:], strict=False):
        nodes.append(node("Slice", [name, start, end, along], layer.outputs[0]))
    return tuple(nodes), tensors
