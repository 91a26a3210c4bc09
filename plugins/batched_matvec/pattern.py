"""Define the nodes that ``batched_matvec`` replaces: a MatMul whose right operand's last dimension is 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views, repeated, several_open


def matmul(op: Any, a: Any, x: Any) -> Any:
    return op.MatMul(a, x)


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the leading dimensions into [outer, broadcast, inner]: x has all but those of ``broadcast``.

    a [..., rows, k] and x [..., k, 1] become [outer, broadcast, inner, rows, k] and [outer, 1, inner, k, 1].
    """
    a, x = shapes["a"], shapes["x"]
    if len(a) < 2 or len(x) < 2 or x[-1] != 1:
        return "the right operand's last dimension is not 1"
    lead, rows, k = a[:-2], a[-2], a[-1]
    parts = repeated(lead, x[:-2])
    if isinstance(parts, str):
        return parts
    outer, broadcast, inner = parts
    if [outer, broadcast, inner, rows, k].count(UNKNOWN) > 1:
        return several_open(a)
    return Views(
        inputs={"a": (outer, broadcast, inner, rows, k), "x": (outer, 1, inner, k, 1)},
        outputs={"y": (*lead, rows, 1)},
        like="a",
    )


PATTERNS = (Pattern(matmul, views=folded),)
