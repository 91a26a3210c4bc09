"""Find the two products of an attention, and the ``Softmax`` between them, in normal form (see ``attention.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from lenet_trt.fuse.movement import known_sizes_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


@dataclass(frozen=True)
class Products:
    """Hold the nodes of an attention, and the values that they read."""

    nodes: tuple[WorkingNode, ...]
    operands: tuple[str, str, str]  # queries, keys, values
    turned: tuple[bool, bool, bool]  # whether the last two axes of an operand change places before it is multiplied
    scale: float
    mask: str | None
    tiled: bool
    guarded: bool  # rows of NaN are zeros

    @property
    def output(self) -> str:
        return self.nodes[-1].outputs[0]


def products_around(graph: WorkingGraph, softmax: WorkingNode) -> Products | None:
    """Return the attention of a ``Softmax`` in normal form (see ``attention.py``)."""
    if not softmax.is_op("Softmax") or softmax.attributes.get("axis") != -1:
        return None
    after = graph.only_consumer(softmax.outputs[0])
    before = graph.producer(softmax.inputs[0])
    if after is None or not after.is_op("MatMul") or after.inputs[0] != softmax.outputs[0]:
        return None
    if not after.attributes.keys() <= {"transB"}:
        return None
    add = before if before is not None and before.is_op("Add") else None
    first = before if add is None else graph.producer(add.inputs[0])
    if first is None or not first.is_op("MatMul"):
        return None
    between = [first, *([] if add is None else [add])]
    if any(graph.only_consumer(node.outputs[0]) is None for node in between):
        return None
    return Products(
        (*between, softmax, after),
        (first.inputs[0], first.inputs[1], after.inputs[1]),
        ("transA" in first.attributes, "transB" not in first.attributes, "transB" in after.attributes),
        float(first.attributes.get("alpha", 1.0)),
        None if add is None else add.inputs[1],
        add is not None and bool(add.attributes.get("tiled")),
        bool(softmax.attributes.get("guarded")),
    )


def is_dense_layer(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a node is a dense layer with constant weights, of rows whose sizes are known or open."""
    return (
        node.is_op("Gemm")
        and node.attributes == {"transB": 1}
        and all(name in graph.constants for name in node.inputs[1:])
        and known_sizes_of(graph, node.inputs[0]) is not None
        and known_sizes_of(graph, node.outputs[0]) is not None
    )
