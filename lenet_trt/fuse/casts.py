"""Define the rules that leave out casts which do not change what a kernel computes (see ``normal_form.py``).

Source: the attention of Hugging Face's transformers computes ``softmax(x, dtype=torch.float32).to(x.dtype)``. torch's
exporters write that as casts before and behind the softmax, or behind it alone, also where x is of float32. Its RMS
norms are in float32 too: ``weight * norm(x.float()).to(x.dtype)`` in most models, and in Gemma
``(norm(x.float()) * weight.float()).to(x.dtype)``.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from lenet_trt.fuse.norm_nodes import RMS_NORM
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

# float32 holds every number of these types.
_NARROWER = ("float16", "bfloat16")


def needless_casts(graph: WorkingGraph, node: WorkingNode) -> None:
    """Remove a ``Cast`` to the type that is there, and one that takes back a ``Cast`` from 16 bits to float32."""
    if not node.is_op("Cast"):
        return
    wide = graph.producer(node.inputs[0])
    if graph.dtype(node.inputs[0]) == _to(node):
        graph.skip(node, node.inputs[0])
    elif wide is not None and _widens(graph, wide) and graph.dtype(wide.inputs[0]) == _to(node):
        graph.skip(node, wide.inputs[0])


def without_needless_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without each ``Cast`` to the type that is there; the given model where there is none.

    Such a ``Cast`` between two plugins would be a layer of TensorRT's between them: RMS norms of transformers have one,
    in files of the TorchScript exporter.
    """
    if all(node.op_type != "Cast" for node in model.graph.node):
        return model
    graph = WorkingGraph(model)
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if node.is_op("Cast") and graph.dtype(node.inputs[0]) == _to(node):
            name, source = node.outputs[0], node.inputs[0]
            if name not in graph.outputs and all(name not in each.captured for each in graph.consumers(name)):
                sources[name] = sources.get(source, source)
    if not sources:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    kept = [node for node in result.graph.node if sources.keys().isdisjoint(node.output)]
    for node in kept:
        node.input[:] = [sources.get(name, name) for name in node.input]
    del result.graph.node[:]
    result.graph.node.extend(kept)
    return result


def layer_between_casts(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``Softmax`` or an RMS norm in float32 of 16-bit numbers, and back, as one in 16 bits.

    Kernels compute it in float32.
    """
    before = graph.producer(node.inputs[0]) if node.is_op("Softmax", RMS_NORM) else None
    behind = graph.only_consumer(node.outputs[0])
    if before is None or behind is None or not takes_back(graph, before, behind):
        return
    if graph.only_consumer(before.outputs[0]) is None:
        return
    constants = [_narrowed(graph, name, behind) for name in node.inputs[1:]]
    if any(constant is None for constant in constants):
        return
    inputs = [*before.inputs, *filter(None, constants)]
    origins = before.origins | node.origins | behind.origins
    narrow = WorkingNode(node.op_type, inputs, list(behind.outputs), node.attributes, origins)
    graph.replace([before, node, behind], [(behind.slot, narrow)])


def takes_back(graph: WorkingGraph, before: WorkingNode, behind: WorkingNode) -> bool:
    """Return whether two nodes are a ``Cast`` from 16 bits to float32, and one to the type of before."""
    return behind.is_op("Cast") and _widens(graph, before) and graph.dtype(before.inputs[0]) == _to(behind)


def _narrowed(graph: WorkingGraph, name: str, cast: WorkingNode) -> str | None:
    """Return a constant as the cast would make it, if it stays finite."""
    value = graph.constants.get(name)
    if value is None:
        return None
    with np.errstate(over="ignore"):
        narrow = value.astype(helper.tensor_dtype_to_np_dtype(cast.attributes["to"]))
    if not np.isfinite(narrow.astype(np.float32)).all():
        return None
    return graph.add_constant(f"{name}.as_{_to(cast)}", narrow)


def _widens(graph: WorkingGraph, node: WorkingNode) -> bool:
    return node.is_op("Cast") and _to(node) == "float32" and graph.dtype(node.inputs[0]) in _NARROWER


def _to(cast: WorkingNode) -> str:
    """Return the type that a ``Cast`` gives, by the name that ``WorkingGraph.dtype`` has for it."""
    return str(helper.tensor_dtype_to_np_dtype(cast.attributes["to"]))
