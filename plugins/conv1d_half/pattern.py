"""Define the nodes of a convolution along one axis, what can follow it, and a transposition to tokens behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..windows.activation import NODES_OF_DENSE_LAYERS_IN_HALVES

Nodes = Callable[[Any, Any], Any]


def _followed_by(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        return nodes(op, op.Conv(x, w, bias, kernel_shape=[size], strides=[stride], pads=[pad, pad]))

    return graph


def _of_images(nodes: Nodes) -> Callable[..., Any]:
    """Return the same of images of one row, the shapes that the kernel has."""

    def body(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        y = _followed_by(nodes)(op, op.Reshape(x, op.ints(0, 0, -1)), w, bias, size, stride, pad)
        return op.Reshape(y, op.ints(0, 0, 1, -1))

    return body


def _images_of(shapes: Mapping[str, Shape]) -> Shape:
    sequences, channels, steps = shapes["x"]
    return (sequences, channels, 1, steps)


def _as_images(shapes: Mapping[str, Shape]) -> Views:
    """Say that the kernel has sequences as images of one row: its layout wants them so."""
    return Views(inputs={"x": _images_of(shapes)}, outputs={"y": shapes["y"]})


def _transposed(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        return op.Transpose(_followed_by(nodes)(op, x, w, bias, size, stride, pad), perm=[0, 2, 1])

    return graph


def _tokens_of_images(nodes: Nodes) -> Callable[..., Any]:
    def body(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        return _transposed(nodes)(op, op.Reshape(x, op.ints(0, 0, -1)), w, bias, size, stride, pad)

    return body


def _x_as_images(shapes: Mapping[str, Shape]) -> Views:
    return Views(inputs={"x": _images_of(shapes)}, outputs={})


PLAIN = tuple(
    Pattern(_followed_by(nodes), {"activation": name}, views=_as_images, body=_of_images(nodes))
    for name, nodes in NODES_OF_DENSE_LAYERS_IN_HALVES
)
TOKENS = tuple(
    Pattern(_transposed(nodes), {"activation": name}, views=_x_as_images, body=_tokens_of_images(nodes))
    for name, nodes in NODES_OF_DENSE_LAYERS_IN_HALVES
)
