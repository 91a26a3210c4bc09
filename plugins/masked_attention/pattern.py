"""Define the nodes that ``masked_attention`` replaces: those of ``attention``, and an ``Add`` before the ``Softmax``.

In normal form a mask of a Swin's windows is added with ``tiled``, and a ``Softmax`` that makes zeros of rows of NaN is
``guarded``: see ``fuse/attention.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views, repeated, several_open

from ..attention.pattern import SWAPPED, misfit, one_head

SWAPPED_OF_SIX = [0, 1, 2, 4, 3, 5]
GUARDED = {"guarded": 1}


def heads_first(of_softmax: Mapping[str, int], **of_add: int) -> Callable[..., Any]:
    """Return the subgraph whose ``Softmax`` and ``Add`` have these attributes of the normal form."""

    def graph(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
        scores = op.Add(op.MatMul(q, k, transB=1, alpha=scale), mask, **of_add)
        return op.MatMul(op.Softmax(scores, axis=-1, **of_softmax), v)

    return graph


def heads_second(of_softmax: Mapping[str, int], perm: list[int]) -> Callable[..., Any]:
    """Return the subgraph in which ``perm`` brings the heads before the queries, and back."""

    def graph(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
        q, k, v = (op.Transpose(x, perm=perm) for x in (q, k, v))
        return op.Transpose(heads_first(of_softmax)(op, q, k, v, mask, scale), perm=perm)

    return graph


def in_kernel_shapes(of_softmax: Mapping[str, int]) -> Callable[..., Any]:
    """Return what computes the attention of q [outer, repeat, inner, m, h, d] to k and v."""

    def graph(op: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any) -> Any:
        q, v = (op.Transpose(x, perm=SWAPPED_OF_SIX) for x in (q, v))
        scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 2, 4, 5, 3])), scale)
        shares = op.Softmax(op.Add(scores, mask), axis=-1)
        return op.Transpose(op.MatMul(guarded(op, shares, scale) if of_softmax else shares, v), perm=SWAPPED_OF_SIX)

    return graph


def guarded(op: Any, shares: Any, scale: Any) -> Any:
    """Make zeros of the rows that are NaN, with ONNX's own nodes; ``scale`` is a number of their type."""
    return op.Where(op.IsNaN(shares), op.Sub(scale, scale), shares)


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


def _patterns(of_softmax: Mapping[str, int], covered_by: Pattern | None = None) -> tuple[Pattern, ...]:
    body = in_kernel_shapes(of_softmax)
    return (
        Pattern(heads_first(of_softmax), views=folded, body=body, covered_by=covered_by),
        Pattern(heads_first(of_softmax, tiled=1), views=folded_windows, body=body, covered_by=covered_by),
        Pattern(heads_second(of_softmax, SWAPPED), views=folded_images, body=body, covered_by=covered_by),
        Pattern(heads_second(of_softmax, SWAPPED_OF_SIX), body=body, covered_by=covered_by),
    )


# The kernel gives zeros for rows without a key, whether the model asks for it or not.
_OF_GUARDED = _patterns(GUARDED)
PATTERNS = (*_patterns({}, _OF_GUARDED[0]), *_OF_GUARDED)
