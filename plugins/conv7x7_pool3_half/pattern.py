"""Define the nodes that ``conv7x7_pool3_half`` replaces: a convolution, an activation and a MaxPool, in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import NODES
from .declaration import PAD, POOL_PAD, POOL_SIZE, POOL_STRIDE, RISING, SIZE, STRIDE

Nodes = Callable[[Any, Any], Any]


def _convolution(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Conv(x, w, bias, kernel_shape=[SIZE] * 2, strides=[STRIDE] * 2, pads=[PAD] * 4)


def _pool(op: Any, y: Any) -> Any:
    return op.MaxPool(y, kernel_shape=[POOL_SIZE] * 2, strides=[POOL_STRIDE] * 2, pads=[POOL_PAD] * 4)


def _pooled_last(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return _pool(op, nodes(op, _convolution(op, x, w, bias)))

    return graph


def _pooled_first(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, _pool(op, _convolution(op, x, w, bias)))

    return graph


_rising = [(name, nodes) for name, nodes in NODES if name in RISING]
PATTERNS = (
    *(Pattern(_pooled_last(nodes), {"activation": name}) for name, nodes in _rising),
    *(Pattern(_pooled_first(nodes), {"activation": name}) for name, nodes in _rising if name != "none"),
)
