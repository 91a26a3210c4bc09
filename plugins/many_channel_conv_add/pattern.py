"""Define the nodes of a convolution to whose result another tensor is added, with and without an activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import NODES


def _followed_by(nodes: Callable[[Any, Any], Any], conv_first: bool) -> Callable[..., Any]:
    def graph(op: Any, x: Any, other: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any) -> Any:
        pads, strides = [pad, pad, pad, pad], [stride, stride]
        y = op.Conv(x, w, bias, kernel_shape=[size, size], strides=strides, pads=pads)
        return nodes(op, op.Add(y, other) if conv_first else op.Add(other, y))

    return graph


PATTERNS = tuple(
    Pattern(_followed_by(nodes, conv_first), {"activation": name})
    for name, nodes in NODES
    for conv_first in (True, False)
)
