"""Define the node that ``masked_self_attention`` replaces: that of ``self_attention``, with a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lenet_trt.pattern import Pattern

from ..masked_attention.pattern import GUARDED, guarded
from ..self_attention.pattern import attention


def _patterns(of_node: Mapping[str, int], covered_by: Sequence[Pattern | None] = (None, None)) -> tuple[Pattern, ...]:
    of_shares = guarded if of_node else None

    def one_tensor(op: Any, x: Any, mask: Any, scale: Any) -> Any:
        return op.SelfAttention(x, mask, scale=scale, **of_node)

    def shifted(op: Any, x: Any, mask: Any, scale: Any, shift: Any) -> Any:
        return op.SelfAttention(x, mask, scale=scale, shift=shift, **of_node)

    def in_onnx(op: Any, x: Any, mask: Any, scale: Any) -> Any:
        """Compute the attention with ONNX's own nodes."""
        return attention(op, x, scale, mask, None, of_shares)

    def in_onnx_shifted(op: Any, x: Any, mask: Any, scale: Any, shift: Any) -> Any:
        """Compute the attention of windows that are shifted."""
        return attention(op, x, scale, mask, shift, of_shares)

    return (
        Pattern(one_tensor, {"shift": 0}, body=in_onnx, any_row_order=True, covered_by=covered_by[0]),
        Pattern(shifted, body=in_onnx_shifted, any_row_order=True, covered_by=covered_by[1]),
    )


# The kernel gives zeros for rows without a key, whether the model asks for it or not.
_OF_GUARDED = _patterns(GUARDED)
PATTERNS = (*_patterns({}, _OF_GUARDED), *_OF_GUARDED)
