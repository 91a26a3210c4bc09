"""Define the nodes of a convolution along one axis, followed by each activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import NODES


def _followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convolution(op: Any, x: Any, w: Any, bias: Any, size: Any, stride: Any, pad: Any, dilation: Any) -> Any:
        sizes = {"kernel_shape": [size], "strides": [stride], "pads": [pad, pad], "dilations": [dilation]}
        return nodes(op, op.Conv(x, w, bias, **sizes))

    return convolution


PATTERNS = tuple(Pattern(_followed_by(nodes), {"activation": name}) for name, nodes in NODES)
