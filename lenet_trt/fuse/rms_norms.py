"""Define the rule that writes an RMS norm as one node: ``RMSNormalization(x, scale, epsilon=...)`` over the last axis.

It divides by the root of the mean square, without a mean: T5, LLaMA and most language models since have it. Up to
opset 22 exporters write six or seven nodes: ``Pow``, ``ReduceMean``, ``Add``, ``Sqrt``, ``Reciprocal`` or ``Div``,
``Mul``, and the ``Mul`` by the scale. ``axes_input=1`` is there where an axis is an input of ``ReduceMean``, from
opset 18 on. In networks of 16 bits transformers computes all before the scale in float32, between two casts.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.fuse.casts import takes_back
from lenet_trt.fuse.norm_nodes import RMS_NORM, NormNodes
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_AXES_AS_INPUT = 18  # the first opset of it
_LAST = (-1,)  # as it is written in normal form


def rms_norm(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write an RMS norm as (x, scale, epsilon=...); ``node`` is its last one, the product with the scale."""
    if node.is_op(RMS_NORM):
        _write_one_node(graph, node)
        return
    if not node.is_op("Mul"):
        return
    found = _normal(graph, node)
    shape = None if found is None else graph.shape(found[1])
    scale = graph.constants.get(node.inputs[1])
    if found is None or not shape or scale is None or scale.size != shape[-1]:
        return
    nodes, x, epsilon = found
    if scale.shape[-1] != scale.size or graph.shape(node.outputs[0]) != shape or not nodes.are_alone():
        return
    name = graph.add_constant(f"{node.outputs[0]}.scale", scale.reshape(-1))
    graph.replace(nodes.nodes, [(node.slot, _node(graph, [x, name], node, epsilon, nodes.origins))])


def _write_one_node(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write the epsilon of a ``RMSNormalization`` over the last axis."""
    rank = graph.rank(node.inputs[0])
    attributes = dict(node.attributes)
    axis, epsilon = attributes.pop("axis", -1), attributes.pop("epsilon", float(np.float32(1e-5)))
    if not attributes and rank is not None and axis in (-1, rank - 1):
        graph.replace([node], [(node.slot, _node(graph, node.inputs, node, epsilon, node.origins))])


def _node(
    graph: WorkingGraph, inputs: list[str], last: WorkingNode, epsilon: float, origins: frozenset[int]
) -> WorkingNode:
    of_opset = {"axes_input": 1} if graph.opsets.get("", 1) >= _AXES_AS_INPUT else {}
    return WorkingNode(RMS_NORM, inputs, list(last.outputs), {"epsilon": epsilon, **of_opset}, origins)


def _normal(graph: WorkingGraph, last: WorkingNode) -> tuple[NormNodes, str, float] | None:
    """Return the nodes, x and the epsilon where the product ``last`` has x over the root of its mean square."""
    product = behind = graph.producer(last.inputs[0])
    if behind is not None and behind.is_op("Cast"):
        product = graph.producer(behind.inputs[0])
    if product is None or not product.is_op("Mul", "Div"):
        return None
    orders = [product.inputs, product.inputs[::-1]] if product.is_op("Mul") else [product.inputs]
    for x, factor in orders:
        nodes = NormNodes(graph, [last, product])  # of this order alone
        divisor = _divisor(nodes, factor) if product.is_op("Mul") else factor
        root = None if divisor is None else nodes.root(divisor)
        square = None if root is None else nodes.mean(root[0], _LAST)
        squared = None if square is None else nodes.square(square)
        if root is None or squared is None or not _is_cast_alike(nodes, squared, x) or _is_distance(graph, x):
            continue
        if behind is product:
            return nodes, x, root[1]
        before = nodes.node(x, "Cast")
        if behind is None or before is None or not takes_back(graph, before, behind):
            return None
        nodes.nodes.append(behind)
        return nodes, before.inputs[0], root[1]
    return None


def _is_cast_alike(nodes: NormNodes, squared: str, x: str) -> bool:
    """Return whether what is squared is x, or both are casts of one value, as diffusers' RMS norm has them."""
    if squared == x:
        return True
    cast, other = nodes.node(squared, "Cast"), nodes.graph.producer(x)
    if cast is None or other is None or not other.is_op("Cast"):
        return False
    return (cast.inputs, cast.attributes) == (other.inputs, other.attributes)


def _is_distance(graph: WorkingGraph, name: str) -> bool:
    """Return whether a value is a distance from a mean: its norm is the inner part of a layer norm."""
    node = graph.producer(name)
    mean = None if node is None or not node.is_op("Sub") else graph.producer(node.inputs[1])
    return mean is not None and mean.is_op("ReduceMean")


def _divisor(nodes: NormNodes, name: str) -> str | None:
    """Return what a value is the reciprocal of."""
    node = nodes.node(name, "Reciprocal", "Div")
    if node is None or (node.is_op("Div") and nodes.number(node.inputs[0]) != 1):
        return None
    return node.inputs[-1]
