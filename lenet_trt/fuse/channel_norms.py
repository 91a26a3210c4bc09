"""Define the rule that writes a layer norm over the channels of maps in one way.

In normal form that is ``LayerNormalization`` between two ``Transpose``, as exporters write it for torchvision and timm.
transformers' ConvNeXt (and ConvNeXt's first implementation) computes it without a transposition: ``ReduceMean`` over
axis 1, ``Sub``, ``Pow``, ``ReduceMean``, ``Add``, ``Sqrt``, ``Div``, ``Mul`` and ``Add``, with weights [c, 1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lenet_trt.fuse.movement import TO_CHANNELS_FIRST, TO_CHANNELS_LAST
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_RANK = 4


@dataclass
class _Reader:
    """Go from a value to the nodes that compute it, and keep these."""

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

    def mean(self, name: str) -> str | None:
        """Return what a value is the mean of, over the channels."""
        node = self.node(name, "ReduceMean")
        if node is None or node.attributes.get("keepdims", 1) != 1:
            return None
        axes = node.attributes.get("axes")
        if len(node.inputs) > 1:
            known = self.graph.constants.get(node.inputs[1])
            axes = None if known is None else known.reshape(-1).tolist()
        return node.inputs[0] if axes in ([1], [1 - _RANK]) else None

    def distance(self, name: str) -> str | None:
        """Return x where a value is the distance of x from its mean."""
        node = self.node(name, "Sub")
        return node.inputs[0] if node is not None and self.mean(node.inputs[1]) == node.inputs[0] else None

    def square(self, name: str) -> str | None:
        """Return what a value is the square of."""
        node = self.node(name, "Pow", "Mul")
        if node is None:
            return None
        if node.is_op("Mul"):
            return node.inputs[0] if node.inputs[0] == node.inputs[1] else None
        return node.inputs[0] if self.number(node.inputs[1]) == 2 else None

    def normal(self, name: str) -> tuple[str, float] | None:
        """Return x and the epsilon where a value is x, normalised."""
        divide = self.node(name, "Div")
        root = None if divide is None else self.node(divide.inputs[1], "Sqrt")
        add = None if root is None else self.node(root.inputs[0], "Add")
        if divide is None or add is None:
            return None
        epsilon, square = self.number(add.inputs[1]), self.mean(add.inputs[0])
        distance = None if square is None else self.square(square)
        x = self.distance(divide.inputs[0])
        if epsilon is None or distance is None or x is None or self.distance(distance) != x:
            return None
        return x, epsilon


def norm_of_channels(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace the nine nodes of a norm over the channels of maps, the last of which is ``node``."""
    product = graph.producer(node.inputs[0]) if node.is_op("Add") else None
    shape = graph.shape(node.outputs[0])
    if product is None or not product.is_op("Mul") or shape is None or len(shape) != _RANK:
        return
    scale, bias = (_of_channels(graph, name, shape[1]) for name in (product.inputs[1], node.inputs[1]))
    reader = _Reader(graph, [node, product])
    found = reader.normal(product.inputs[0])
    if found is None or scale is None or bias is None:
        return
    inner = [name for each in reader.nodes[1:] for name in each.outputs]
    if any(name in graph.outputs or any(r not in reader.nodes for r in graph.consumers(name)) for name in inner):
        return
    x, epsilon = found
    origins = frozenset().union(*(each.origins for each in reader.nodes))
    names = [graph.add_constant(f"{node.outputs[0]}.{name}", each) for name, each in (("scale", scale), ("bias", bias))]
    pixels, normal = (f"{node.outputs[0]}.{what}" for what in ("pixels", "normalised"))
    slots = sorted(each.slot for each in reader.nodes)
    graph.replace(
        reader.nodes,
        [
            (slots[-3], WorkingNode("Transpose", [x], [pixels], {"perm": TO_CHANNELS_LAST}, origins)),
            (slots[-2], WorkingNode("LayerNormalization", [pixels, *names], [normal], {"epsilon": epsilon}, origins)),
            (slots[-1], WorkingNode("Transpose", [normal], list(node.outputs), {"perm": TO_CHANNELS_FIRST}, origins)),
        ],
    )


def _of_channels(graph: WorkingGraph, name: str, channels: int | str | None) -> np.ndarray | None:
    """Return a constant [c, 1, 1] or [1, c, 1, 1] as [c]."""
    value = graph.constants.get(name)
    if value is None or value.shape not in ((channels, 1, 1), (1, channels, 1, 1)):
        return None
    return value.reshape(-1)
