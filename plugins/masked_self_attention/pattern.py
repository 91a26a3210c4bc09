"""Define the node that ``masked_self_attention`` replaces: that of ``self_attention``, with a mask."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern

from ..self_attention.pattern import attention


def one_tensor(op: Any, x: Any, mask: Any, scale: Any) -> Any:
    return op.SelfAttention(x, mask, scale=scale)


def shifted(op: Any, x: Any, mask: Any, scale: Any, shift: Any) -> Any:
    return op.SelfAttention(x, mask, scale=scale, shift=shift)


def in_onnx(op: Any, x: Any, mask: Any, scale: Any) -> Any:
    """Compute the attention with ONNX's own nodes."""
    return attention(op, x, scale, mask)


def in_onnx_shifted(op: Any, x: Any, mask: Any, scale: Any, shift: Any) -> Any:
    """Compute the attention of windows that are shifted."""
    return attention(op, x, scale, mask, shift)


PATTERNS = (
    Pattern(one_tensor, {"shift": 0}, body=in_onnx, any_row_order=True),
    Pattern(shifted, body=in_onnx_shifted, any_row_order=True),
)
