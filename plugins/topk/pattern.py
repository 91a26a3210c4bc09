"""Define the nodes that ``topk`` replaces: the largest elements along the last axis, sorted, and their indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of


def largest(op: Any, x: Any, k: Any) -> Any:
    values, indices = op.TopK(x, k, _outputs=2)
    return values, indices


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows."""
    outputs = {name: shapes[name] for name in ("values", "indices")}
    return Views(inputs={"x": rows_of(shapes["x"])}, outputs=outputs, like="x")


PATTERNS = (Pattern(largest, views=folded),)
