"""Define the nodes of ``concat_shuffle``: a Concat of two tensors, and the shuffle of its channels in two groups.

In normal form, this is a Concat with ``interleaved=1``: see ``fuse/shuffles.py``.
"""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def interleaved(op: Any, a: Any, b: Any) -> Any:
    return op.Concat(a, b, axis=1, interleaved=1)


def in_onnx(op: Any, a: Any, b: Any) -> Any:
    """Compute the same with ONNX's own nodes, for images of any size."""
    image = op.Slice(op.Shape(a), op.ints(2), op.ints(4))
    groups = op.Reshape(op.Concat(a, b, axis=1), op.Concat(op.ints(0, 2, -1), image, axis=0))
    return op.Reshape(op.Transpose(groups, perm=[0, 2, 1, 3, 4]), op.Concat(op.ints(0, -1), image, axis=0))


PATTERNS = (Pattern(interleaved, body=in_onnx),)
