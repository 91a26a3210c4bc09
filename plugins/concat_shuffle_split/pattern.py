"""Define the nodes of ``concat_shuffle_split``: those of ``concat_shuffle``, and two slices of half of the channels.

In normal form, the slices are a Split: see ``fuse/shuffles.py``.
"""

from __future__ import annotations

from typing import Any

from lenet_trt.kernel import INT32_MAX
from lenet_trt.pattern import Pattern

from ..concat_shuffle.pattern import in_onnx as joined
from ..concat_shuffle.pattern import interleaved


def halves(op: Any, a: Any, b: Any) -> Any:
    first, second = op.Split(interleaved(op, a, b), axis=1, _outputs=2)
    return first, second


def in_onnx(op: Any, a: Any, b: Any) -> Any:
    """Compute the same with ONNX's own nodes, for any number of channels."""
    y, half = joined(op, a, b), op.Slice(op.Shape(a), op.ints(1), op.ints(2))
    return op.Slice(y, op.ints(0), half, op.ints(1)), op.Slice(y, half, op.ints(INT32_MAX), op.ints(1))


PATTERNS = (Pattern(halves, body=in_onnx),)
