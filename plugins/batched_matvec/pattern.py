"""Define the nodes that ``batched_matvec`` replaces: a MatMul whose right operand's last dimension is 1."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.bind import Shape
from lenet_trt.pattern import Pattern, Views

_UNKNOWN = -1


def matmul(op: Any, a: Any, x: Any) -> Any:
    return op.MatMul(a, x)


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the leading dimensions into [outer, broadcast, inner]: x has all but those of ``broadcast``.

    a [..., rows, k] and x [..., k, 1] become [outer, broadcast, inner, rows, k] and [outer, 1, inner, k, 1].
    """
    a, x = shapes["a"], shapes["x"]
    if len(a) < 2 or len(x) < 2 or x[-1] != 1:
        return "the right operand's last dimension is not 1"
    lead_a, rows, k = a[:-2], a[-2], a[-1]
    lead_x = (1,) * (len(lead_a) - len(x[:-2])) + x[:-2]
    if len(lead_x) > len(lead_a):
        return "the left operand would be broadcast over the right one"
    spread = [one == 1 and many != 1 for one, many in zip(lead_x, lead_a, strict=True)]
    if any(one not in (many, 1) for one, many in zip(lead_x, lead_a, strict=True)):
        return f"leading dimensions {list(lead_a)} and {list(lead_x)}: the left operand would be broadcast as well"
    first = spread.index(True) if True in spread else len(spread)
    last = len(spread) - spread[::-1].index(True) if True in spread else len(spread)
    if not all(spread[first:last]):
        return f"the dimensions over which the right operand is broadcast are not side by side in {list(lead_a)}"
    parts = [_folded(lead_a[:first]), _folded(lead_a[first:last]), _folded(lead_a[last:])]
    if [*parts, rows, k].count(_UNKNOWN) > 1:
        return f"more than one size of {list(a)} is not known"
    outer, broadcast, inner = parts
    return Views(
        inputs={"a": (outer, broadcast, inner, rows, k), "x": (outer, 1, inner, k, 1)},
        outputs={"y": (*lead_a, rows, 1)},
    )


def _folded(sizes: Shape) -> int:
    return _UNKNOWN if _UNKNOWN in sizes else prod(sizes)


PATTERNS = (Pattern(matmul, views=folded),)
