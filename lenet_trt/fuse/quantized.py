"""Find out whether TensorRT runs the nodes of a match quantized: after DequantizeLinear or before QuantizeLinear.

TensorRT joins such nodes with the quantization around them into one layer of 8 bits or fewer. A plugin of other types
would break that layer: its input and output would be converted, and it would compute in more bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from lenet_trt.fuse.cut import title
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode
from lenet_trt.kernel.bind import Specialized
from lenet_trt.onnx_model.quantization import MOVED_ACROSS


def quantization_around(
    model: onnx.ModelProto, graph: WorkingGraph, match: Match, specialized: Specialized | None
) -> str | None:
    """Say why a plugin may not stand there, or None if it may: the call's own types are quantized, or nothing else is.

    ``specialized`` is the call; None if it cannot be known yet, so that it counts as not quantized.
    """
    kernel = match.kernel
    if specialized is not None and specialized.quantized:
        return None
    found = _dequantized(graph, match.values.values())
    where = "comes from"
    if found is None:
        found = _quantized(graph, match)
        where = "goes to"
    if found is None:
        return None
    value, node = found
    narrow = graph.dtype(node.inputs[0] if where == "comes from" else node.outputs[0]) or "8 bits"
    return (
        f"{value} {where} {title(model.graph.node[min(node.origins)])}, so TensorRT runs these nodes in {narrow}; "
        f"{kernel.name} has no such types (it has {', '.join(types.name for types in kernel.types)})"
    )


def _dequantized(graph: WorkingGraph, values: Iterable[str]) -> tuple[str, WorkingNode] | None:
    """Return the first of the values that comes from a DequantizeLinear, and this node."""
    for value in values:
        node = graph.producer(value)
        while node is not None and node.is_op(*MOVED_ACROSS):
            node = graph.producer(node.inputs[0])
        if node is not None and node.is_op("DequantizeLinear"):
            return value, node
    return None


def _quantized(graph: WorkingGraph, match: Match) -> tuple[str, WorkingNode] | None:
    """Return the first output that goes to a QuantizeLinear, and this node."""
    for value in match.outputs:
        for node in _readers(graph, value):
            if node.is_op("QuantizeLinear"):
                return value, node
    return None


def _readers(graph: WorkingGraph, value: str) -> Iterator[WorkingNode]:
    """Yield the nodes that read a value, directly or moved."""
    for node in graph.consumers(value):
        if node.inputs[:1] != [value]:
            continue  # it is the shape or the scale of something else
        yield node
        if node.is_op(*MOVED_ACROSS):
            yield from _readers(graph, node.outputs[0])
