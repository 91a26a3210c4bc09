"""Define the nodes that ``linear`` and ``linear_half`` replace: a dense layer over the last axis, and an activation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of

from ..windows.activation import NODES_OF_DENSE_LAYERS, Nodes


def followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the subgraph in which these nodes follow the layer."""

    def dense(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, op.Gemm(x, w, bias, transB=1))

    return dense


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows."""
    x = shapes["x"]
    return Views(inputs={"x": rows_of(x)}, outputs={"y": (*x[:-1], *shapes["bias"])}, like="x")


def patterns(after: Iterable[Nodes]) -> tuple[Pattern, ...]:
    """Return the patterns with these nodes after the layer; they are taken where dense_bias_relu could be, too."""
    return tuple(Pattern(followed_by(nodes), {"activation": name}, preference=1, views=folded) for name, nodes in after)


PATTERNS = patterns(NODES_OF_DENSE_LAYERS)
