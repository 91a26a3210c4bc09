"""Define the node that ``rotary_attention`` replaces; ``fuse/rotary_attention.py`` finds it in what exporters write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.pattern import Pattern

from ..masked_attention.pattern import GUARDED, guarded


def in_onnx(
    op: Any,
    x: Any,
    cos: Any,
    sin: Any,
    mask: Any,
    scale: Any,
    repeats: Any,
    *,
    change: Callable[[Any, str], Any] = lambda rows, _: rows,
    zeros: bool = False,
) -> Any:
    """Compute the attention with ONNX's own nodes.

    ``change``: what is done to queries and keys before they are turned; ``zeros``: for a row without a key.
    """
    g, d = (op.Slice(op.Shape(x), op.ints(axis), op.ints(axis + 1)) for axis in (4, 5))
    heads = op.Mul(g, repeats)
    every = op.Transpose(op.Reshape(x, op.Concat(op.ints(0, 0, 0, -1), d, axis=0)), perm=[0, 1, 3, 2, 4])
    half = op.Div(d, op.ints(2))

    def part(of: Any, start: Any, end: Any, axis: int) -> Any:
        return op.Slice(of, start, end, op.ints(axis))

    def rotated(of: Any) -> Any:
        turned = op.Concat(op.Neg(part(of, half, d, -1)), part(of, op.ints(0), half, -1), axis=-1)
        return op.Add(op.Mul(of, cosines), op.Mul(turned, sines))

    def twice(angles: Any) -> Any:
        """Return the first half of each row, twice."""
        first = part(angles, op.ints(0), half, -1)
        return op.Concat(first, first, axis=-1)

    cosines, sines = twice(cos), twice(sin)

    def repeated(of: Any) -> Any:
        """Return [n, b, heads, t, d] of [n, b, g, t, d]."""
        once = op.Unsqueeze(of, op.ints(3))
        shape = op.Shape(once)
        wide = op.Concat(
            part(shape, op.ints(0), op.ints(3), 0), repeats, part(shape, op.ints(4), op.ints(6), 0), axis=0
        )
        return op.Reshape(op.Expand(once, wide), op.Concat(op.ints(0, 0), heads, op.ints(-1), d, axis=0))

    of_keys, of_values = op.Add(heads, g), op.Add(op.Add(heads, g), g)
    q = rotated(change(part(every, op.ints(0), heads, 2), "queries"))
    k = repeated(rotated(change(part(every, heads, of_keys, 2), "keys")))
    v = repeated(part(every, of_keys, of_values, 2))
    scores = op.Add(op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 2, 4, 3])), scale), mask)
    shares = op.Softmax(scores, axis=-1)
    y = op.Transpose(op.MatMul(guarded(op, shares, scale) if zeros else shares, v), perm=[0, 1, 3, 2, 4])
    return op.Reshape(y, op.Concat(op.ints(0, 0, 0), repeats, g, d, axis=0))


def _pattern(of_node: Mapping[str, int], covered_by: Pattern | None = None) -> Pattern:
    def one_node(op: Any, x: Any, cos: Any, sin: Any, mask: Any, scale: Any, repeats: Any) -> Any:
        return op.RotaryAttention(x, cos, sin, mask, scale=scale, repeats=repeats, **of_node)

    def body(op: Any, x: Any, cos: Any, sin: Any, mask: Any, scale: Any, repeats: Any) -> Any:
        return in_onnx(op, x, cos, sin, mask, scale, repeats, zeros=bool(of_node))

    return Pattern(one_node, body=body, any_row_order=True, covered_by=covered_by)


# The kernel gives zeros for rows without a key, whether the model asks for it or not.
_OF_GUARDED = _pattern(GUARDED)
PATTERNS = (_pattern({}, _OF_GUARDED), _OF_GUARDED)
