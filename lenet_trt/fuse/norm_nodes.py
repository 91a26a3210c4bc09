"""Read the nodes of a norm from its last one back to its input, for the rules that write a norm in one way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

RMS_NORM = "RMSNormalization"


@dataclass
class NormNodes:
    """Go from a value to the nodes that compute it, and keep these; the first one is the norm's last."""

    graph: WorkingGraph
    nodes: list[WorkingNode]

    def node(self, name: str, *op_types: str) -> WorkingNode | None:
        """Return the node that computes a value, if it is of one of these operators."""
        node = self.graph.producer(name)
        if node is None or not node.is_op(*op_types):
            return None
        if node not in self.nodes:
            self.nodes.append(node)
        return node

    def number(self, name: str) -> float | None:
        """Return the one number of a constant."""
        value = self.graph.constants.get(name)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def mean(self, name: str, axes: Collection[int]) -> str | None:
        """Return what a value is the mean of, over an axis, which has these numbers."""
        node = self.node(name, "ReduceMean")
        if node is None or node.attributes.get("keepdims", 1) != 1:
            return None
        given = node.attributes.get("axes")
        if len(node.inputs) > 1:
            known = self.graph.constants.get(node.inputs[1])
            given = None if known is None else known.reshape(-1).tolist()
        return node.inputs[0] if isinstance(given, list) and len(given) == 1 and given[0] in axes else None

    def square(self, name: str) -> str | None:
        """Return what a value is the square of."""
        node = self.node(name, "Pow", "Mul")
        if node is None:
            return None
        if node.is_op("Mul"):
            return node.inputs[0] if node.inputs[0] == node.inputs[1] else None
        return node.inputs[0] if self.number(node.inputs[1]) == 2 else None

    def root(self, name: str) -> tuple[str, float] | None:
        """Return the value and the number where a value is the root of their sum."""
        root = self.node(name, "Sqrt")
        add = None if root is None else self.node(root.inputs[0], "Add")
        number = None if add is None else self.number(add.inputs[1])
        return None if add is None or number is None else (add.inputs[0], number)

    @property
    def origins(self) -> frozenset[int]:
        return frozenset().union(*(node.origins for node in self.nodes))

    def are_alone(self) -> bool:
        """Return whether nothing else reads what they compute, but for the result of the last one."""
        inner = [name for node in self.nodes[1:] for name in node.outputs]
        return not any(
            name in self.graph.outputs or any(reader not in self.nodes for reader in self.graph.consumers(name))
            for name in inner
        )
