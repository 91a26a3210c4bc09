"""Bring convolutions and max-pools into the normal form."""

from __future__ import annotations

from typing import Any

import numpy as np

from lenet_trt.fuse.rewriting import any_is_read, give_bias
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode, count


def convolution(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``Conv``'s window in one way, and give it a bias: its own, one added afterwards, or zeros."""
    if not node.is_op("Conv"):
        return
    sizes = _filter_sizes(graph, node)
    if sizes is None:
        return
    attributes = _window(graph, node, sizes[2:])
    if attributes is None:
        return
    if "group" in node.attributes:
        attributes["group"] = node.attributes["group"]
    ones = (1,) * (len(sizes) - 2)
    give_bias(graph, node, node.inputs[1], attributes, sizes[0], [(sizes[0], *ones), (1, sizes[0], *ones)])


def transposed_convolution(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write the window of a ``ConvTranspose`` in one way, and give it a bias, as ``convolution`` does."""
    if not node.is_op("ConvTranspose") or node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return
    sizes = _filter_sizes(graph, node)
    if sizes is None:
        return
    attributes = _window(graph, node, sizes[2:]) or {}
    for name in ("group", "output_padding", "output_shape"):
        if any(np.atleast_1d(node.attributes.get(name, 0))):
            attributes[name] = node.attributes[name]
    planes, ones = sizes[1] * int(node.attributes.get("group", 1)), (1,) * (len(sizes) - 2)
    give_bias(graph, node, node.inputs[1], attributes, planes, [(planes, *ones), (1, planes, *ones)])


def max_pooling(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``MaxPool``'s window in one way, and remove the layout of indices that no node reads."""
    if not node.is_op("MaxPool") or any_is_read(graph, node.outputs[1:]):
        return
    attributes = _window(graph, node, list(node.attributes["kernel_shape"]))
    if attributes is None:
        return
    if "ceil_mode" in node.attributes:
        attributes["ceil_mode"] = node.attributes["ceil_mode"]
    node.attributes = attributes
    node.outputs = node.outputs[:1]


def activation_before_pooling(graph: WorkingGraph, node: WorkingNode) -> None:
    """Move a ``Relu`` or ``Tanh`` before its ``MaxPool``, which gives the same result, since both are monotone."""
    if not node.is_op("Relu", "Tanh"):
        return
    pool = graph.producer(node.inputs[0])
    if pool is None or not pool.is_op("MaxPool") or graph.only_consumer(pool.outputs[0]) is None:
        return
    between = f"{node.outputs[0]}.before_pooling"
    first = WorkingNode(node.op_type, list(pool.inputs), [between], node.attributes, node.origins)
    second = WorkingNode("MaxPool", [between], list(node.outputs), pool.attributes, pool.origins)
    graph.replace([pool, node], [(pool.slot, first), (node.slot, second)])


def _filter_sizes(graph: WorkingGraph, node: WorkingNode) -> list[int] | None:
    """Return the shape of a convolution's filters; None where it is unknown, or no window is in it."""
    shape = graph.shape(node.inputs[1])
    if shape is None or len(shape) < 3 or not all(isinstance(size, int) for size in shape):
        return None
    return [int(size or 0) for size in shape]


def _window(graph: WorkingGraph, node: WorkingNode, kernel: list[int]) -> dict[str, Any] | None:
    """Return kernel_shape, and strides, pads and dilations where they are not the default.

    Returns None where the padding depends on an unknown size.
    """
    rank = len(kernel)
    strides = list(node.attributes.get("strides", [1] * rank))
    dilations = list(node.attributes.get("dilations", [1] * rank))
    auto = node.attributes.get("auto_pad", "NOTSET")
    pads = list(node.attributes.get("pads", [0] * (2 * rank)))
    if auto == "VALID":
        pads = [0] * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = graph.shape(node.inputs[0])
        if shape is None or count(shape[2:]) is None:
            return None
        reach = [(size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
        total = [
            max((-(-int(size or 0) // stride) - 1) * stride + extent + 1 - int(size or 0), 0)
            for size, stride, extent in zip(shape[2:], strides, reach, strict=True)
        ]
        small = [amount // 2 for amount in total]
        large = [amount - half for amount, half in zip(total, small, strict=True)]
        pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
    optional = {"strides": (strides, 1), "pads": (pads, 0), "dilations": (dilations, 1)}
    changed = {name: value for name, (value, default) in optional.items() if set(value) != {default}}
    return {"kernel_shape": kernel, **changed}
