"""Define the node that ``self_attention`` replaces: attention whose queries, keys and values are parts of one tensor.

``fuse/self_attention.py`` finds it among reshapes, transpositions and slices, and writes it as one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lenet_trt.kernel import INT32_MAX
from lenet_trt.pattern import Pattern


def one_tensor(op: Any, x: Any, scale: Any) -> Any:
    return op.SelfAttention(x, scale=scale)


def shifted(op: Any, x: Any, scale: Any, shift: Any) -> Any:
    return op.SelfAttention(x, scale=scale, shift=shift)


def in_onnx(op: Any, x: Any, scale: Any) -> Any:
    """Compute the attention with ONNX's own nodes."""
    return attention(op, x, scale)


def in_onnx_shifted(op: Any, x: Any, scale: Any, shift: Any) -> Any:
    """Compute the attention of windows that are shifted."""
    return attention(op, x, scale, shift=shift)


def attention(
    op: Any, x: Any, scale: Any, mask: Any = None, shift: Any = None, of_shares: Callable[..., Any] | None = None
) -> Any:
    """Compute the attention of x [n, a, r, b, c, 3, h, d]: [n, a, r, b, c, h, d].

    ``of_shares(op, shares, scale)``: what becomes of the softmax.
    """
    a, r, b, c, h, d = (op.Slice(op.Shape(x), op.ints(axis), op.ints(axis + 1)) for axis in (1, 2, 3, 4, 6, 7))

    def shape(*sizes: Any) -> Any:
        """Return the shape [n, *sizes, the rest]."""
        return op.Concat(op.ints(0), *sizes, op.ints(-1), axis=0)

    def rolled(windows: Any, by: Any) -> Any:
        """Roll rows and columns of the images back."""
        image = op.Reshape(windows, shape(op.Mul(a, r), op.Mul(b, c)))
        for axis in (1, 2):
            first = op.Slice(image, by, op.ints(INT32_MAX), op.ints(axis))
            image = op.Concat(first, op.Slice(image, op.ints(0), by, op.ints(axis)), axis=axis)
        return image

    def part(index: int, perm: list[int]) -> Any:
        """Return queries, keys or values: [n, a b, h, d, r c], and then the last axes as ``perm`` says."""
        one = op.Transpose(op.Gather(x, op.constant(np.array(index)), axis=5), perm=[0, 1, 3, 5, 6, 2, 4])
        return op.Transpose(op.Reshape(one, shape(op.Mul(a, b), h, d)), perm=[0, 1, 2, *perm])

    if shift is not None:
        x = op.Reshape(rolled(x, shift), shape(a, r, b, c, op.ints(3), h))
    scores = op.Mul(op.MatMul(part(0, [4, 3]), part(1, [3, 4])), scale)
    if mask is not None:
        scores = op.Add(scores, mask)
    shares = op.Softmax(scores, axis=-1)
    if of_shares is not None:
        shares = of_shares(op, shares, scale)
    y = op.Reshape(op.MatMul(shares, part(2, [4, 3])), shape(a, b, h, r, c))
    y = op.Transpose(y, perm=[0, 1, 4, 2, 5, 3, 6])
    return y if shift is None else op.Reshape(rolled(y, op.Neg(shift)), shape(a, r, b, c, h))


PATTERNS = (
    Pattern(one_tensor, {"shift": 0}, body=in_onnx, any_row_order=True),
    Pattern(shifted, body=in_onnx_shifted, any_row_order=True),
)
