"""Tell nodes that read what a tensor has from those that read only its sizes, as exporters with an open batch write."""

from __future__ import annotations

from collections.abc import Collection

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

# How a graph computes sizes; none of these reads what a tensor has.
_OF_SIZES = ("Shape", "Gather", "Unsqueeze", "Squeeze", "Concat", "Cast", "Slice", "Add", "Sub", "Mul", "Div")


def reader_beside_sizes(graph: WorkingGraph, name: str, op_type: str) -> WorkingNode | None:
    """Return the one node that reads a value, beside those that read its sizes, if it is of this operator."""
    readers = [node for node in graph.consumers(name) if not node.is_op("Shape")]
    return readers[0] if len(readers) == 1 and name not in graph.outputs and readers[0].is_op(op_type) else None


def only_for_sizes(graph: WorkingGraph, names: Collection[str], readers: Collection[WorkingNode]) -> bool:
    """Return whether what reads values beside these nodes, their ``Shape``, ends at these nodes too."""
    pending, seen = list(names), set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in graph.outputs:
            return False
        for node in graph.consumers(name):
            if node in readers:
                continue
            if not node.is_op(*_OF_SIZES):
                return False
            pending += node.outputs
    return True
