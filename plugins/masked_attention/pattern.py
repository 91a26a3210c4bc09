"""Define the nodes that ``masked_attention`` replaces: those of ``attention``, and an ``Add`` before the ``Softmax``.

In normal form a mask of a Swin's windows is added with ``tiled``: see ``fuse/attention.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.bind import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views, repeated, several_open

from ..attention.pattern import SWAPPED, misfit, one_head

SWAPPED_OF_SIX = [0, 1, 2, 4, 3, 5]


def masked(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any, **of_add: int) -> Any:
    scores = op.Add(op.MatMul(q, k, transB=1, alpha=scale), mask, **of_add)
    return op.MatMul(op.Softmax(scores, axis=-1), v)


def heads_first(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
    return masked(op, q, k, v, mask, scale)


def windows(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
    return masked(op, q, k, v, mask, scale, tiled=1)


def heads_second(perm: list[int]) -> Callable[..., Any]:
    """Return the subgraph in which ``perm`` brings the heads before the queries, and back."""

    def graph(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
        q, k, v = (op.Transpose(x, perm=perm) for x in (q, k, v))
        return op.Transpose(masked(op, q, k, v, mask, scale), perm=perm)

    return graph


def in_kernel_shapes(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
    """Compute the attention of q [outer, repeat, inner, m, h, d] to k and v."""
    q, v = (op.Transpose(x, perm=SWAPPED_OF_SIX) for x in (q, v))
    scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 2, 4, 5, 3])), scale)
    return op.Transpose(op.MatMul(op.Softmax(op.Add(scores, mask), axis=-1), v), perm=SWAPPED_OF_SIX)


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold images and heads into images of one head, which the mask has or is repeated over."""
    problem = misfit(shapes)
    if problem is not None:
        return problem
    parts = _mask_of(shapes, shapes["q"][:-2], shapes["mask"][:-2])
    if isinstance(parts, str):
        return parts
    outer, repeat, inner = parts
    views = {name: (outer, repeat, inner, *one_head(shapes[name])[1:]) for name in "qkv"}
    mask = shapes["mask"]
    views["mask"] = (outer, 1, inner, 1, *(1, *mask)[-2:])
    return Views(inputs=views, outputs={"y": shapes["q"]}, like="q")


def folded_windows(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold images, windows and heads into images of one head: the mask of all windows is repeated over the images."""
    problem = misfit(shapes)
    if problem is not None:
        return problem
    q, k, mask = shapes["q"], shapes["k"], shapes["mask"]
    if mask[1:] != (*q[1:-1], k[-2]):
        return f"the mask {list(mask)} has not the heads, the queries and the keys of the queries {list(q)}"
    inner = prod(mask[:-2])
    if UNKNOWN in (*mask, q[-1]):
        return several_open(q, k, mask)
    repeat = UNKNOWN if q[0] == UNKNOWN else q[0] // mask[0]
    views = {name: (1, repeat, inner, *one_head(shapes[name])[1:]) for name in "qkv"}
    views["mask"] = (1, 1, inner, 1, *mask[-2:])
    return Views(inputs=views, outputs={"y": q}, like="q")


def folded_images(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the images, which the mask has or is repeated over; its heads are those of q [n, m, h, d], or one."""
    q, mask = shapes["q"], (1,) * (4 - len(shapes["mask"])) + shapes["mask"]
    if not len(q) == len(mask) == 4 or mask[1] not in (1, q[2]):
        return f"the mask {list(mask)} has not the heads of the queries {list(q)}"
    heads_first = {name: tuple(shapes[name][axis] for axis in SWAPPED) for name in "qkv"}
    problem = misfit(heads_first)
    if problem is not None:
        return problem
    parts = _mask_of({**heads_first, "mask": mask}, q[:1], mask[:1])
    if isinstance(parts, str):
        return parts
    outer, repeat, inner = parts
    views = {name: (outer, repeat, inner, *shapes[name][1:]) for name in "qkv"}
    views["mask"] = (outer, 1, inner, *mask[1:])
    return Views(inputs=views, outputs={"y": q}, like="q")


def _mask_of(shapes: Mapping[str, Shape], many: Shape, few: Shape) -> tuple[int, int, int] | str:
    """Fold ``many`` images into [outer, repeat, inner], of which the mask has ``few``; q and k make its scores."""
    q, k, mask = shapes["q"], shapes["k"], shapes["mask"]
    if mask[-1:] != k[-2:-1] or (1, *mask)[-2] not in (1, q[-2]):
        return f"the mask {list(mask)} has not the queries {q[-2]} and the keys {k[-2]} of the scores"
    if [*q, k[-2]].count(UNKNOWN) > 1:
        return several_open(q, k, mask)
    return repeated(many, few)


PATTERNS = (
    Pattern(heads_first, views=folded, body=in_kernel_shapes),
    Pattern(windows, views=folded_windows, body=in_kernel_shapes),
    Pattern(heads_second(SWAPPED), views=folded_images, body=in_kernel_shapes),
    Pattern(heads_second(SWAPPED_OF_SIX), body=in_kernel_shapes),
)
