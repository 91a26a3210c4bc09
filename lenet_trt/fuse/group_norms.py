"""Define the rules that write a group norm as one node: ``GroupNormalization(x, scale, bias, num_groups, epsilon)``.

x is [n, c, pixels ...], scale and bias are [c]. torch's exporters write ``Reshape`` to [n, groups, rest],
``InstanceNormalization`` with a scale of ones and a bias of zeros, ``Reshape`` back, ``Mul`` and ``Add``. ONNX has a
node of its own from opset 18 on, whose scale and bias were of groups before opset 21. An ``InstanceNormalization`` by
itself is a group norm, too: each channel is a group.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.fuse.norm_nodes import NormNodes
from lenet_trt.fuse.rewriting import replace_by_one
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

GROUP_NORM = "GroupNormalization"
_OF_CHANNELS = 21  # the first opset in which scale and bias are of channels
_LEAST_RANK = 3
_EPSILON = float(np.float32(1e-5))  # ONNX's default


def norm_of_groups(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a group norm as (x, scale, bias); ``node`` is its last one, the sum with the bias."""
    if node.is_op(GROUP_NORM):
        _write_one_node(graph, node)
        return
    product = graph.producer(node.inputs[0]) if node.is_op("Add") else None
    shape = None if product is None else graph.shape(product.outputs[0])
    if product is None or not product.is_op("Mul") or shape is None or len(shape) < _LEAST_RANK:
        return
    scale, bias = (_of_channels(graph, each.inputs[1], shape) for each in (product, node))
    nodes = NormNodes(graph, [node, product])
    back = nodes.node(product.inputs[0], "Reshape")
    found = None if back is None else _instance_norm(nodes, back.inputs[0]) or _normal(nodes, back.inputs[0])
    if found is None or scale is None or bias is None or not nodes.are_alone():
        return
    groups, epsilon = found
    x, inside = groups.inputs[0], graph.shape(groups.outputs[0])
    if graph.shape(x) != shape or inside is None or inside[0] != shape[0] or not isinstance(inside[1], int):
        return
    _replace(graph, nodes.nodes, x, (scale, bias), {"num_groups": inside[1], "epsilon": epsilon})


def norm_of_instances(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write an instance norm as a group norm; those inside of group norms are gone."""
    shape = graph.shape(node.inputs[0]) if node.is_op("InstanceNormalization") else None
    scale, bias = (graph.constants.get(name) for name in node.inputs[1:]) if shape is not None else (None, None)
    if scale is None or bias is None or scale.ndim != 1:
        return
    _replace(graph, [node], node.inputs[0], (scale, bias), {"num_groups": scale.size, "epsilon": _epsilon(node)})


def _write_one_node(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write scale and bias of channels, and the epsilon."""
    shape = graph.shape(node.inputs[0])
    groups = node.attributes.get("num_groups")
    given = [graph.constants.get(name) for name in node.inputs[1:]]
    if shape is None or not isinstance(shape[1], int) or not isinstance(groups, int) or shape[1] % groups:
        return
    if any(each is None for each in given) or set(node.attributes) == {"num_groups", "epsilon"}:
        return
    repeats = 1 if graph.opsets.get("", 1) >= _OF_CHANNELS else shape[1] // groups
    scale, bias = (np.repeat(each, repeats) for each in given if each is not None)
    _replace(graph, [node], node.inputs[0], (scale, bias), {"num_groups": groups, "epsilon": _epsilon(node)})


def _epsilon(node: WorkingNode) -> float:
    return float(node.attributes.get("epsilon", _EPSILON))


def _replace(
    graph: WorkingGraph,
    nodes: list[WorkingNode],
    x: str,
    weights: tuple[np.ndarray, np.ndarray],
    attributes: dict[str, int | float],
) -> None:
    last = nodes[0]
    names = [
        graph.add_constant(f"{last.outputs[0]}.{name}", each)
        for name, each in zip(("scale", "bias"), weights, strict=True)
    ]
    replace_by_one(graph, nodes, last.slot, GROUP_NORM, [x, *names], last.outputs, attributes)


def _instance_norm(nodes: NormNodes, name: str) -> tuple[WorkingNode, float] | None:
    """Return the node that makes groups, and the epsilon, where a value is their instance norm."""
    norm = nodes.node(name, "InstanceNormalization")
    groups = None if norm is None else nodes.node(norm.inputs[0], "Reshape")
    if norm is None or groups is None:
        return None
    scale, bias = (nodes.graph.constants.get(each) for each in norm.inputs[1:])
    if scale is None or bias is None or (scale != 1).any() or bias.any():
        return None
    return groups, _epsilon(norm)


def _normal(nodes: NormNodes, name: str) -> tuple[WorkingNode, float] | None:
    """Return the same where a value is written out: distances from the mean, over the root of their mean square."""
    divide = nodes.node(name, "Div")
    distance = None if divide is None else nodes.node(divide.inputs[0], "Sub")
    root = None if divide is None else nodes.root(divide.inputs[1])
    if distance is None or root is None:
        return None
    means = [nodes.node(each, "GlobalAveragePool") for each in (root[0], distance.inputs[1])]
    groups = nodes.node(distance.inputs[0], "Reshape")
    if groups is None or means[0] is None or means[1] is None or means[1].inputs[0] != groups.outputs[0]:
        return None
    return (groups, root[1]) if nodes.square(means[0].inputs[0]) == distance.outputs[0] else None


def _of_channels(graph: WorkingGraph, name: str, shape: tuple[int | str | None, ...]) -> np.ndarray | None:
    """Return a constant [c, 1 ...] as [c], where the rank is that of an image, or with an axis for images before it."""
    value = graph.constants.get(name)
    image = (shape[1], *[1] * (len(shape) - 2))
    return value.reshape(-1) if value is not None and value.shape in (image, (1, *image)) else None
