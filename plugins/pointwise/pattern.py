"""Define the nodes of a 1x1 convolution at stride 1, and what can follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import NODES_IN_HALVES

Nodes = Callable[[Any, Any], Any]


def _convolution(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Conv(x, w, bias, kernel_shape=[1, 1])


def _followed_by(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, _convolution(op, x, w, bias))

    return graph


def _added(nodes: Nodes, conv_first: bool) -> Callable[..., Any]:
    def graph(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
        y = _convolution(op, x, w, bias)
        return nodes(op, op.Add(y, other) if conv_first else op.Add(other, y))

    return graph


PLAIN = tuple(Pattern(_followed_by(nodes), {"activation": name}) for name, nodes in NODES_IN_HALVES)
ADDED = tuple(
    Pattern(_added(nodes, conv_first), {"activation": name})
    for name, nodes in NODES_IN_HALVES
    for conv_first in (True, False)
)
