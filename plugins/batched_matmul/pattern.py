"""Define the nodes that ``batched_matmul`` replaces: a MatMul or Einsum of two matrices for each leading index.

In normal form, this is a MatMul with ``transA``, ``transB`` and ``alpha``: see ``fuse/products.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views, several_open

LARGEST = 64  # rows, columns and length of the sums


def in_kernel_shapes(op: Any, a: Any, b: Any, alpha: Any) -> Any:
    """Compute alpha times the products from a [batch, k or 1, m, 1 or k] and b [batch, k or 1, n, 1 or k]."""
    rows, columns = (op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), op.ints(0, 0, -1)) for x in (a, b))
    return op.Mul(op.MatMul(rows, op.Transpose(columns, perm=[0, 2, 1])), alpha)


def _pattern(transposed_a: bool, transposed_b: bool) -> Pattern:
    attributes = {name: 1 for name, value in (("transA", transposed_a), ("transB", transposed_b)) if value}

    def product(op: Any, a: Any, b: Any, alpha: Any) -> Any:
        return op.MatMul(a, b, alpha=alpha, **attributes)

    return Pattern(product, views=_folding(transposed_a, transposed_b), body=in_kernel_shapes)


def _folding(transposed_a: bool, transposed_b: bool) -> Callable[[Mapping[str, Shape]], Views | str]:
    """Make the function that folds the leading dimensions into one, and says where k lies in memory."""

    def folded(shapes: Mapping[str, Shape]) -> Views | str:
        a, b = shapes["a"], shapes["b"]
        if len(a) < 3 or len(b) < 3:
            return "one operand is a single matrix: that is a dense layer"
        lead = a[:-2]
        m, k = a[:-3:-1] if transposed_a else a[-2:]
        n = b[-2] if transposed_b else b[-1]
        if n == 1 and not transposed_a:
            return "the right operand is a column: batched_matvec computes that"
        shared = _repeats(lead, b[:-2])
        if shared is None or (shared and transposed_a):
            return f"leading dimensions {list(lead)} and {list(b[:-2])}: one operand would be broadcast over the other"
        batch, rows = _folded(lead[: len(lead) - shared]), _folded((*lead[len(lead) - shared :], m))
        if shared and batch == 1:
            return "the right operand is a single matrix: that is a dense layer"
        if [batch, rows, n, k].count(UNKNOWN) > 1 or lead.count(UNKNOWN) > 1:
            return several_open(a, b)
        return Views(
            inputs={
                "a": (batch, k, rows, 1) if transposed_a else (batch, 1, rows, k),
                "b": (batch, 1, n, k) if transposed_b else (batch, k, n, 1),
            },
            outputs={"y": (*lead, m, n)},
        )

    return folded


def _repeats(lead_a: Shape, lead_b: Shape) -> int | None:
    """Return for how many of the last leading dimensions of ``a`` the right operand is the same; None: for others too.

    Over these dimensions, the rows of ``a`` are rows of one larger matrix.
    """
    if len(lead_a) != len(lead_b):
        return None
    shared = 0
    while shared < len(lead_a) and lead_b[-1 - shared] == 1 != lead_a[-1 - shared]:
        shared += 1
    kept = len(lead_a) - shared
    return shared if lead_a[:kept] == lead_b[:kept] else None


def _folded(sizes: Shape) -> int:
    return UNKNOWN if UNKNOWN in sizes else prod(sizes)


PATTERNS = tuple(_pattern(a, b) for a in (False, True) for b in (False, True))
