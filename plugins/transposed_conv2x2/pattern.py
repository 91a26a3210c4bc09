"""Define the nodes of a transposed convolution with 2x2 filters at stride 2, and what can follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import Nodes


def _followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convolution(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, op.ConvTranspose(x, w, bias, kernel_shape=[2, 2], strides=[2, 2]))

    return convolution


def patterns(after: Iterable[Nodes]) -> tuple[Pattern, ...]:
    """Return the patterns with these nodes after the convolution."""
    return tuple(Pattern(_followed_by(nodes), {"activation": name}) for name, nodes in after)
