"""Join the dense layers that give queries, keys and values to an attention, where all of them read the same rows.

Three layers become one, and slices of its outputs:

    x wq^T + bq,  x wk^T + bk,  x wv^T + bv    are parts of    x [wq wk wv]^T + [bq bk bv]

A kernel that takes queries, keys and values as parts of one tensor copies none of them, and one product of three times
as many outputs is two launches less and divides better among the multiprocessors.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import onnx

from lenet_trt.fuse.attention_products import is_dense_layer, products_around
from lenet_trt.fuse.cut import Insertion, NewNodes, Uses, replaced
from lenet_trt.fuse.rotary_positions import source_of_layer
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def with_joined_layers(
    model: onnx.ModelProto, graph: WorkingGraph, left: Set[str] = frozenset()
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with these layers joined, and their queries, keys and values, which are slices now.

    ``graph``: the model in the form in which attention is written in one way. ``left``: layers that give one of these
    values are not joined.
    """
    uses = Uses(model.graph)
    insertions: list[Insertion] = []
    new = NewNodes()
    sliced: set[str] = set()
    for node in graph.nodes:
        layers = _layers_before(graph, node)
        if layers is None:
            continue
        outputs = [layer.outputs[0] for layer in layers]
        origins = frozenset().union(*(layer.origins for layer in layers))
        if not left.isdisjoint(outputs) or any(origins & other.origins for other in insertions):
            continue
        first = min(max(layer.origins) for layer in layers)
        if uses.obstacle(origins, layers[0].inputs[:1], outputs, first):
            continue
        _add_joined(graph, layers, new)
        insertions.append(Insertion(new.taken(), origins, first))
        sliced.update(outputs)
    return (replaced(model, insertions, [], new.tensors) if insertions else model), frozenset(sliced)


def _layers_before(graph: WorkingGraph, softmax: WorkingNode) -> list[WorkingNode] | None:
    """Return the layers of the queries, keys and values of an attention, if they are three alike with one input.

    With rotary positions keys and values may have fewer heads than queries.
    """
    products = products_around(graph, softmax)
    if products is None:
        return None
    sources = [source_of_layer(graph, name) for name in products.operands]
    found = layers_of_one_input(graph, [name for name, _ in sources])
    if found is None:
        return None
    queries, keys, values = (graph.constants[layer.inputs[1]].shape for layer in found)
    rotary = [turned for _, turned in sources] == [True, True, False]
    return found if keys == values and (queries == keys or (rotary and queries[0] % keys[0] == 0)) else None


def layers_of_one_input(graph: WorkingGraph, names: Sequence[str]) -> list[WorkingNode] | None:
    """Return the dense layers that give these values, if they are as many layers, and read the same rows."""
    layers = [graph.producer(name) for name in names]
    found = [layer for layer in layers if layer is not None and is_dense_layer(graph, layer)]
    if len({layer.outputs[0] for layer in found}) != len(names) or len({layer.inputs[0] for layer in found}) != 1:
        return None
    return found


def add_joined_layer(graph: WorkingGraph, layers: Sequence[WorkingNode], new: NewNodes) -> str:
    """Add one layer in the place of these, and return the name of its outputs, those of the first layer first."""
    name = f"{layers[0].outputs[0]}.joined"
    weights, biases = ([graph.constants[layer.inputs[which]] for layer in layers] for which in (1, 2))
    weight, bias = (f"{name}.weights", np.concatenate(weights)), (f"{name}.bias", np.concatenate(biases))
    new.dense_layer(layers[0].inputs[0], weight, bias, name)
    return name


def _add_joined(graph: WorkingGraph, layers: Sequence[WorkingNode], new: NewNodes) -> None:
    """Add one layer in the place of these, and slices of its outputs."""
    name = add_joined_layer(graph, layers, new)
    axis, start = len(graph.shape(layers[0].outputs[0]) or ()) - 1, 0
    for layer in layers:
        rows = graph.constants[layer.inputs[1]]
        new.part(name, axis, start, len(rows), layer.outputs[0])
        start += len(rows)
