"""Define the nodes that ``add_group_norm_half`` replaces: a sum of x and [n, c, 1, 1], and the norm of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..group_norm.pattern import in_onnx, one_node
from ..windows.activation import NODES_IN_HALVES

Nodes = Callable[[Any, Any], Any]
Graph = Callable[..., Any]


def of_channels(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold what is added to [n, c]."""
    x, added = shapes["x"], shapes["added"]
    if len(x) != 4 or added[1:] != (x[1], 1, 1):
        return f"{list(added)} is added, which is no number for each channel of an image"
    return Views(inputs={"added": added[:2]}, outputs={"y": x}, like="x")


def _behind_sum(nodes: Nodes, x_first: bool) -> Graph:
    def graph(op: Any, x: Any, added: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        total = op.Add(x, added) if x_first else op.Add(added, x)
        return nodes(op, one_node(op, total, scale, bias, group, epsilon))

    return graph


def _in_onnx(nodes: Nodes) -> Graph:
    norm = in_onnx(image_axes=2)

    def body(op: Any, x: Any, added: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        total = op.Add(x, op.Reshape(added, op.ints(0, 0, 1, 1)))
        return nodes(op, norm(op, total, scale, bias, group, epsilon))

    return body


PATTERNS = tuple(
    Pattern(_behind_sum(nodes, x_first), {"activation": name}, views=of_channels, body=_in_onnx(nodes))
    for name, nodes in NODES_IN_HALVES
    for x_first in (True, False)
)
