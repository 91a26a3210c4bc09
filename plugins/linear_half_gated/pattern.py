"""Define the nodes that ``linear_half_gated`` replaces: the product of two dense layers, one of them activated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of

from ..linear.pattern import followed_by
from ..windows.activation import NODES_OF_DENSE_LAYERS_IN_HALVES

Graph = Callable[..., Any]


def gate_first(nodes: Callable[[Any, Any], Any]) -> Graph:
    """Return the subgraph in which these nodes follow the gate, the first operand of the product."""
    activated = followed_by(nodes)

    def gated(op: Any, x: Any, gate: Any, gate_bias: Any, w: Any, bias: Any) -> Any:
        return op.Mul(activated(op, x, gate, gate_bias), op.Gemm(x, w, bias, transB=1))

    return gated


def gate_last(nodes: Callable[[Any, Any], Any]) -> Graph:
    """Return the subgraph in which the activated gate is the second operand."""
    activated = followed_by(nodes)

    def gated(op: Any, x: Any, gate: Any, gate_bias: Any, w: Any, bias: Any) -> Any:
        return op.Mul(op.Gemm(x, w, bias, transB=1), activated(op, x, gate, gate_bias))

    return gated


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows."""
    x, (outputs, _) = shapes["x"], shapes["biases"]
    return Views(inputs={"x": rows_of(x)}, outputs={"y": (*x[:-1], outputs)}, like="x")


def patterns(activation: str, nodes: Callable[[Any, Any], Any]) -> Iterator[Pattern]:
    """Yield the patterns with these nodes after the gate; both orders share one function, if a file has both."""
    body = gate_first(nodes)
    orders = (body,) if activation == "none" else (body, gate_last(nodes))  # without one, either layer is the gate
    for graph in orders:
        yield Pattern(graph, {"activation": activation}, preference=1, views=folded, body=body)


PATTERNS = tuple(pattern for each in NODES_OF_DENSE_LAYERS_IN_HALVES for pattern in patterns(*each))
