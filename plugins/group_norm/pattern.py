"""Define the node that the group norms replace; ``fuse/group_norms.py`` writes the nodes of exporters as this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views

from ..windows.activation import NODES

Nodes = Callable[[Any, Any], Any]
Norm = Callable[..., Any]


def one_node(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
    return op.GroupNormalization(x, scale, bias, num_groups=group, epsilon=epsilon)


def in_onnx(image_axes: int) -> Norm:
    """Return what computes the norm with nodes of any opset, where an image has so many axes."""

    def norm(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        groups = op.Reshape(x, op.Concat(op.ints(0), op.Reshape(group, op.ints(1)), op.ints(-1), axis=0))
        distances = op.Sub(groups, op.GlobalAveragePool(groups))
        deviation = op.Sqrt(op.Add(op.GlobalAveragePool(op.Mul(distances, distances)), epsilon))
        normal = op.Reshape(op.Div(distances, deviation), op.Shape(x))
        of_channels = op.ints(-1, *[1] * image_axes)
        return op.Add(op.Mul(normal, op.Reshape(scale, of_channels)), op.Reshape(bias, of_channels))

    return norm


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the axes of an image into one of pixels."""
    batch, channels, *image = shapes["x"]
    return _views(shapes, (batch, channels, _pixels(image)))


def as_maps(shapes: Mapping[str, Shape]) -> Views | str:
    """Make a map of one row where an image has not two axes."""
    batch, channels, *image = shapes["x"]
    return _views(shapes, (batch, channels, *in_rows(image)))


def in_rows(image: Sequence[int]) -> Sequence[int]:
    """Return the height and width of an image, 1 and all pixels where it has not two axes."""
    return image if len(image) == 2 else (1, _pixels(image))


def _pixels(image: Sequence[int]) -> int:
    return UNKNOWN if UNKNOWN in image else prod(image)


def _views(shapes: Mapping[str, Shape], x: Shape) -> Views | str:
    if len(shapes["x"]) == 2:
        return "x has no pixels"
    return Views(inputs={"x": x}, outputs={"y": shapes["x"]}, like="x")


def patterns(ways: Iterable[tuple[str, Nodes]], views: Callable[..., Any], image_axes: int) -> tuple[Pattern, ...]:
    """Return the pattern of a norm with each activation, for a kernel whose images have so many axes."""
    body = in_onnx(image_axes)
    return tuple(
        Pattern(_followed_by(nodes, one_node), {"activation": name}, views=views, body=_followed_by(nodes, body))
        for name, nodes in ways
    )


def _followed_by(nodes: Nodes, norm: Norm) -> Norm:
    def with_activation(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        return nodes(op, norm(op, x, scale, bias, group, epsilon))

    return with_activation


PATTERNS = patterns(NODES, folded, image_axes=1)
