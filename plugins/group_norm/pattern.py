"""Define the node that ``group_norm`` replaces; ``fuse/group_norms.py`` writes the nodes of exporters as this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views

from ..windows.activation import NODES

Nodes = Callable[[Any, Any], Any]


def one_node(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
    return op.GroupNormalization(x, scale, bias, num_groups=group, epsilon=epsilon)


def in_onnx(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
    """Compute the norm with nodes of any opset."""
    groups = op.Reshape(x, op.Concat(op.ints(0), op.Reshape(group, op.ints(1)), op.ints(-1), axis=0))
    distances = op.Sub(groups, op.GlobalAveragePool(groups))
    deviation = op.Sqrt(op.Add(op.GlobalAveragePool(op.Mul(distances, distances)), epsilon))
    normal = op.Reshape(op.Div(distances, deviation), op.Shape(x))
    of_channels = op.ints(-1, 1)
    return op.Add(op.Mul(normal, op.Reshape(scale, of_channels)), op.Reshape(bias, of_channels))


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the axes of a map into one of pixels."""
    batch, channels, *image = shapes["x"]
    if not image:
        return "x has no pixels"
    pixels = UNKNOWN if UNKNOWN in image else prod(image)
    return Views(inputs={"x": (batch, channels, pixels)}, outputs={"y": shapes["x"]}, like="x")


def _followed_by(nodes: Nodes, norm: Callable[..., Any]) -> Callable[..., Any]:
    def with_activation(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        return nodes(op, norm(op, x, scale, bias, group, epsilon))

    return with_activation


PATTERNS = tuple(
    Pattern(_followed_by(nodes, one_node), {"activation": name}, views=folded, body=_followed_by(nodes, in_onnx))
    for name, nodes in NODES
)
