"""Compute a layer norm once for each of the products that read it, so that kernels can take it with them.

A layer with two attentions, as in Stable Diffusion 3.5, normalises tokens once, and then has two modulations of them:

    y = LayerNormalization(x);  y * a + b;  y * c + d

A kernel that computes a norm and a modulation reads x where the modulation alone would read y. Up to opset 16 a norm is
several nodes, and stays.
"""

from __future__ import annotations

import onnx

from lenet_trt.fuse.cut import Insertion, NewNodes, replaced
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def with_norms_of_readers(model: onnx.ModelProto, graph: WorkingGraph) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with a norm for each product that reads one of several, and what all these products give.

    ``graph``: the model in the form in which layers keep their order.
    """
    insertions: list[Insertion] = []
    new = NewNodes()
    products: set[str] = set()
    for norm in graph.nodes:
        readers = _products_of(graph, norm)
        products.update(reader.outputs[0] for reader in readers)
        for reader in readers[1:]:
            _add(model, norm, reader, new)
            insertions.append(Insertion(new.taken(), reader.origins))
    return (replaced(model, insertions, [], new.tensors) if insertions else model), frozenset(products)


def _products_of(graph: WorkingGraph, norm: WorkingNode) -> list[WorkingNode]:
    """Return the products that read a layer norm, where nothing else does, and there are several."""
    output = norm.outputs[0]
    if not norm.is_op("LayerNormalization") or output in graph.outputs:
        return []
    readers = graph.consumers(output)
    alone = all(reader.is_op("Mul") and len(reader.origins) == 1 for reader in readers)
    return readers if alone and len(set(readers)) == len(readers) > 1 else []


def _add(model: onnx.ModelProto, norm: WorkingNode, reader: WorkingNode, new: NewNodes) -> None:
    """Add the product that reads a norm, and a norm of its own."""
    (output,), (index,) = reader.outputs, reader.origins
    nodes = [model.graph.node[each] for each in sorted(norm.origins)]
    names = new.copies(nodes, {}, f".of_{output}")
    new.add(reader.op_type, [names.get(name, name) for name in model.graph.node[index].input], output)
