"""Define the nodes that ``add_rms_norm`` replaces: a sum of two tensors of one shape, and its RMS norm."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern

from ..add_layer_norm.pattern import folded
from ..rms_norm.pattern import WAYS, Norm


def after_sum(norm: Norm) -> Norm:
    """Return the subgraph of the sum before a way to write an RMS norm."""

    def graph(op: Any, x: Any, other: Any, scale: Any, epsilon: Any) -> Any:
        total = op.Add(x, other)
        return norm(op, total, scale, epsilon), total

    graph.__name__ = f"sum_before_{norm.__name__}"
    return graph


PATTERNS = tuple(Pattern(after_sum(node), views=folded, body=after_sum(body)) for node, body in WAYS)
