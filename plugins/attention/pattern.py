"""Define the nodes that ``attention`` replaces: the heads come before the queries, or are brought there and back.

In normal form the first product is a MatMul with ``transB`` and ``alpha``: see ``fuse/products.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views, rows_of, several_open

SWAPPED = [0, 2, 1, 3]  # queries and heads


def heads_first(op: Any, q: Any, k: Any, v: Any, scale: Any) -> Any:
    return op.MatMul(op.Softmax(op.MatMul(q, k, transB=1, alpha=scale), axis=-1), v)


def heads_second(op: Any, q: Any, k: Any, v: Any, scale: Any) -> Any:
    q, k, v = (op.Transpose(x, perm=SWAPPED) for x in (q, k, v))
    return op.Transpose(heads_first(op, q, k, v, scale), perm=SWAPPED)


def in_kernel_shapes(op: Any, q: Any, k: Any, v: Any, scale: Any) -> Any:
    """Compute the attention of q [n, m, h, d] to k and v [n, t, h, d]."""
    q, v = (op.Transpose(x, perm=SWAPPED) for x in (q, v))
    scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 2, 3, 1])), scale)
    return op.Transpose(op.MatMul(op.Softmax(scores, axis=-1), v), perm=SWAPPED)


def misfit(shapes: Mapping[str, Shape]) -> str | None:
    """Say why the queries, keys and values are not those of the kernel, where they are not."""
    q, k, v = (shapes[name] for name in "qkv")
    if not 3 <= len(q) == len(k) == len(v):
        return f"queries {list(q)}, keys {list(k)} and values {list(v)} have not the same number of axes, 3 or more"
    if not q[:-2] == k[:-2] == v[:-2] or not q[-1] == k[-1] == v[-1]:
        return f"queries {list(q)}, keys {list(k)} and values {list(v)} have not the same heads of the same sizes"
    if k[-2] != v[-2]:
        return f"there are other numbers of keys {list(k)} and of values {list(v)}"
    return None


def one_head(x: Shape) -> Shape:
    """Fold all axes before the queries into images of one head: [n, queries, 1, d]."""
    return (rows_of(x[:-1])[0], x[-2], 1, x[-1])


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold images and heads into images of one head."""
    problem = misfit(shapes)
    if problem is not None:
        return problem
    if [*shapes["q"], shapes["k"][-2]].count(UNKNOWN) > 1:
        return several_open(shapes["q"], shapes["k"])
    views = {name: one_head(shapes[name]) for name in "qkv"}
    return Views(inputs=views, outputs={"y": shapes["q"]}, like="q")


PATTERNS = (
    Pattern(heads_first, views=folded, body=in_kernel_shapes),
    Pattern(heads_second, body=in_kernel_shapes, any_row_order=True),
)
