"""Define the nodes that ``conv7x7_pool3_half`` replaces: a convolution, an activation and a MaxPool, in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.pattern import Pattern

from ..windows.activation import NODES
from .declaration import PAD, POOL_PAD, POOL_SIZE, POOL_STRIDE, RISING, SIZE, STRIDE

Nodes = Callable[[Any, Any], Any]
# x as it is, or as a model of 16 bits has it whose images are floats.
TO_T = (None, *(ELEMENT_TYPES[name].onnx_number for name in ("float16", "bfloat16")))


def _convolution(op: Any, x: Any, w: Any, bias: Any, to: int | None) -> Any:
    given = x if to is None else op.Cast(x, to=to)
    return op.Conv(given, w, bias, kernel_shape=[SIZE] * 2, strides=[STRIDE] * 2, pads=[PAD] * 4)


def _pool(op: Any, y: Any) -> Any:
    return op.MaxPool(y, kernel_shape=[POOL_SIZE] * 2, strides=[POOL_STRIDE] * 2, pads=[POOL_PAD] * 4)


def _pooled_last(nodes: Nodes, to: int | None) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return _pool(op, nodes(op, _convolution(op, x, w, bias, to)))

    return graph


def _pooled_first(nodes: Nodes, to: int | None) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, _pool(op, _convolution(op, x, w, bias, to)))

    return graph


PATTERNS = tuple(
    Pattern(ordered(nodes, to), {"activation": name})
    for to in TO_T
    for name, nodes in NODES
    for ordered in (_pooled_last, _pooled_first)
    if name in RISING and not (name == "none" and ordered is _pooled_first)
)
