"""Define the nodes of ``concat_shuffle_split``: those of ``concat_shuffle``, and two slices of half of the channels.

In normal form, the slices are a Split: see ``fuse/shuffles.py``.
"""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern

from ..concat_shuffle.pattern import channels_last, interleaved


def halves(op: Any, a: Any, b: Any) -> Any:
    first, second = op.Split(interleaved(op, a, b), axis=1, _outputs=2)
    return first, second


def in_onnx(op: Any, a: Any, b: Any) -> Any:
    """Compute the same by Gather, since a Split of unknown sizes is written differently from opset 18 on."""
    both = op.Reshape(channels_last(op, a, b), op.ints(0, 0, 0, 2, -1))
    parts = (op.Reshape(op.Gather(both, op.ints(half), axis=3), op.ints(0, 0, 0, -1)) for half in (0, 1))
    return tuple(op.Transpose(part, perm=[0, 3, 1, 2]) for part in parts)


PATTERNS = (Pattern(halves, body=in_onnx),)
