"""Declare what the kernels of convolutions share: their attributes, and their patterns with each activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.kernel import Attribute, IntegerAttribute
from lenet_trt.pattern import Pattern

from .activation import ACTIVATION, NODES, NODES_IN_HALVES
from .declaration import PAD, STRIDE


def convolution_attributes(
    group: IntegerAttribute, sizes: tuple[int, ...]
) -> tuple[Attribute, IntegerAttribute, Attribute, Attribute, IntegerAttribute]:
    """Return the attributes of a convolution with square filters of these sizes, in the order of its patterns."""
    return (ACTIVATION, group, Attribute("size", sizes, "rows and columns of a filter"), STRIDE, PAD)


def convolution_patterns(grouped: bool = True, preference: int = 0) -> tuple[Pattern, ...]:
    """Return the patterns of a convolution with square filters, strides and padding, followed by each activation.

    ``grouped``: the number of groups is an attribute of the kernel; otherwise there is one group.
    """
    followed_by = _grouped_followed_by if grouped else _plain_followed_by
    return tuple(Pattern(followed_by(nodes), {"activation": name}, preference) for name, nodes in NODES)


def patterns_in_halves(**attributes: Any) -> tuple[Pattern, ...]:
    """Return the patterns in 16 bits of a convolution with these attributes, as ONNX has them, and each activation."""

    def followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def convolution(op: Any, x: Any, w: Any, bias: Any) -> Any:
            return nodes(op, op.Conv(x, w, bias, **attributes))

        return convolution

    return tuple(Pattern(followed_by(nodes), {"activation": name}) for name, nodes in NODES_IN_HALVES)


def patterns_of_sums_in_halves(**attributes: Any) -> tuple[Pattern, ...]:
    """Return the patterns of the same with a residual connection before the activation."""

    def followed_by(nodes: Callable[[Any, Any], Any], conv_first: bool) -> Callable[..., Any]:
        def convolution(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
            y = op.Conv(x, w, bias, **attributes)
            return nodes(op, op.Add(y, other) if conv_first else op.Add(other, y))

        return convolution

    return tuple(
        Pattern(followed_by(nodes, conv_first), {"activation": name})
        for name, nodes in NODES_IN_HALVES
        for conv_first in (True, False)
    )


def _grouped_followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convolution(op: Any, x: Any, w: Any, bias: Any, group: Any, size: Any, stride: Any, pad: Any) -> Any:
        pads, strides = [pad, pad, pad, pad], [stride, stride]
        return nodes(op, op.Conv(x, w, bias, kernel_shape=[size, size], group=group, strides=strides, pads=pads))

    return convolution


def _plain_followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convolution(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        pads, strides = [pad, pad, pad, pad], [stride, stride]
        return nodes(op, op.Conv(x, w, bias, kernel_shape=[size, size], strides=strides, pads=pads))

    return convolution
