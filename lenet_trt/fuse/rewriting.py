"""Rewrite layers of a graph: several nodes by one, and a layer with a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode
from lenet_trt.kernel.types import numpy_dtype


def replace_by_one(
    graph: WorkingGraph,
    old: list[WorkingNode],
    slot: int,
    op_type: str,
    inputs: list[str],
    outputs: list[str],
    attributes: dict[str, Any],
) -> None:
    """Replace several nodes by one."""
    origins = frozenset().union(*(node.origins for node in old))
    node = WorkingNode(op_type, list(inputs), list(outputs), attributes, origins)
    graph.replace(old, [(slot, node)])


def give_bias(
    graph: WorkingGraph,
    node: WorkingNode,
    weight: str,
    attributes: dict[str, Any],
    size: int,
    shapes: list[tuple[int, ...]],
) -> None:
    """Rewrite a layer as op(x, weight, bias); the bias is its own, or a constant that is added to it, or zeros.

    ``shapes``: further shapes, beside ``[size]``, from which a constant may be broadcast.
    """
    nodes, slot, outputs = [node], node.slot, list(node.outputs)
    op_type = "Gemm" if node.op_type == "MatMul" else node.op_type
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    add = graph.only_consumer(node.outputs[0])
    if not bias and add is not None and add.is_op("Add"):
        other = [name for name in add.inputs if name != node.outputs[0]]
        added = graph.constants.get(other[0]) if other else None
        if added is not None and added.shape in [*shapes, *([(size,)] if op_type == "Gemm" else [])]:
            nodes, slot, outputs, bias = [node, add], add.slot, list(add.outputs), other[0]
    if not bias:
        dtype = numpy_dtype(graph.dtype(weight) or "float32")
        bias = graph.add_constant(f"{node.outputs[0]}.zero_bias", np.zeros(size, dtype=dtype))
    constant = graph.constants.get(bias)
    if constant is not None and constant.shape in shapes:
        spread = np.ascontiguousarray(np.broadcast_to(constant.reshape(-1), (size,)))
        bias = graph.add_constant(f"{bias}.vector", spread)
    elif graph.shape(bias) != (size,):
        return
    replace_by_one(graph, nodes, slot, op_type, [node.inputs[0], weight, bias], outputs, attributes)


def is_read_once(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether one node alone reads the first output of a node."""
    return graph.only_consumer(node.outputs[0]) is not None


def any_is_read(graph: WorkingGraph, names: list[str]) -> bool:
    """Return whether a node reads one of these tensors, or the model gives it."""
    return any(name in graph.outputs or graph.consumers(name) for name in names)
