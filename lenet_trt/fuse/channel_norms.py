"""Define the rule that writes a layer norm over the channels of maps in one way.

In normal form that is ``LayerNormalization`` between two ``Transpose``, as exporters write it for torchvision and timm.
transformers' ConvNeXt (and ConvNeXt's first implementation) computes it without a transposition: ``ReduceMean`` over
axis 1, ``Sub``, ``Pow``, ``ReduceMean``, ``Add``, ``Sqrt``, ``Div``, ``Mul`` and ``Add``, with weights [c, 1, 1].
"""

from __future__ import annotations

import numpy as np

from lenet_trt.fuse.movement import TO_CHANNELS_FIRST, TO_CHANNELS_LAST
from lenet_trt.fuse.norm_nodes import NormNodes
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_RANK = 4
_CHANNELS = (1, 1 - _RANK)


def norm_of_channels(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace the nine nodes of a norm over the channels of maps, the last of which is ``node``."""
    product = graph.producer(node.inputs[0]) if node.is_op("Add") else None
    shape = graph.shape(node.outputs[0])
    if product is None or not product.is_op("Mul") or shape is None or len(shape) != _RANK:
        return
    scale, bias = (_of_channels(graph, name, shape[1]) for name in (product.inputs[1], node.inputs[1]))
    nodes = NormNodes(graph, [node, product])
    found = _normal(nodes, product.inputs[0])
    if found is None or scale is None or bias is None or not nodes.are_alone():
        return
    x, epsilon = found
    names = [graph.add_constant(f"{node.outputs[0]}.{name}", each) for name, each in (("scale", scale), ("bias", bias))]
    pixels, normal = (f"{node.outputs[0]}.{what}" for what in ("pixels", "normalised"))
    slots = sorted(each.slot for each in nodes.nodes)
    origins = nodes.origins
    graph.replace(
        nodes.nodes,
        [
            (slots[-3], WorkingNode("Transpose", [x], [pixels], {"perm": TO_CHANNELS_LAST}, origins)),
            (slots[-2], WorkingNode("LayerNormalization", [pixels, *names], [normal], {"epsilon": epsilon}, origins)),
            (slots[-1], WorkingNode("Transpose", [normal], list(node.outputs), {"perm": TO_CHANNELS_FIRST}, origins)),
        ],
    )


def _normal(nodes: NormNodes, name: str) -> tuple[str, float] | None:
    """Return x and the epsilon where a value is x, normalised."""
    divide = nodes.node(name, "Div")
    root = None if divide is None else nodes.root(divide.inputs[1])
    if divide is None or root is None:
        return None
    square = nodes.mean(root[0], _CHANNELS)
    distance = None if square is None else nodes.square(square)
    x = _distance(nodes, divide.inputs[0])
    if distance is None or x is None or _distance(nodes, distance) != x:
        return None
    return x, root[1]


def _distance(nodes: NormNodes, name: str) -> str | None:
    """Return x where a value is the distance of x from its mean."""
    node = nodes.node(name, "Sub")
    return node.inputs[0] if node is not None and nodes.mean(node.inputs[1], _CHANNELS) == node.inputs[0] else None


def _of_channels(graph: WorkingGraph, name: str, channels: int | str | None) -> np.ndarray | None:
    """Return a constant [c, 1, 1] or [1, c, 1, 1] as [c]."""
    value = graph.constants.get(name)
    if value is None or value.shape not in ((channels, 1, 1), (1, channels, 1, 1)):
        return None
    return value.reshape(-1)
