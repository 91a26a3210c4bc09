"""Define the nodes of ``concat_shuffle``: a Concat of two tensors, and the shuffle of its channels in two groups.

In normal form, this is a Concat with ``interleaved=1``: see ``fuse/shuffles.py``.
"""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def interleaved(op: Any, a: Any, b: Any) -> Any:
    return op.Concat(a, b, axis=1, interleaved=1)


def channels_last(op: Any, a: Any, b: Any) -> Any:
    """Return the channels in turns, as [n, h, w, 2 c]: with ONNX's own nodes, and without knowing the sizes."""
    pairs = op.Concat(*(op.Reshape(x, op.ints(0, 0, 0, 0, 1)) for x in (a, b)), axis=4)
    return op.Reshape(op.Transpose(pairs, perm=[0, 2, 3, 1, 4]), op.ints(0, 0, 0, -1))


def in_onnx(op: Any, a: Any, b: Any) -> Any:
    return op.Transpose(channels_last(op, a, b), perm=[0, 3, 1, 2])


PATTERNS = (Pattern(interleaved, body=in_onnx),)
