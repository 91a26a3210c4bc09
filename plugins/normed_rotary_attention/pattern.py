"""Define the node that ``normed_rotary_attention`` replaces; ``fuse/rotary_attention.py`` finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.pattern import Pattern

from ..masked_attention.pattern import GUARDED
from ..rms_norm.pattern import Norm, in_onnx, in_onnx_18
from ..rotary_attention.pattern import in_onnx as rotary_attention


def _pattern(norm: Norm, of_node: Mapping[str, int], covered_by: Pattern | None = None) -> Pattern:
    def one_node(
        op: Any, x: Any, cos: Any, sin: Any, mask: Any, query_scale: Any, key_scale: Any,
        scale: Any, repeats: Any, epsilon: Any,
    ) -> Any:  # fmt: skip
        tensors = (x, cos, sin, mask, query_scale, key_scale)
        return op.RotaryAttention(*tensors, scale=scale, repeats=repeats, epsilon=epsilon, **of_node)

    def body(
        op: Any, x: Any, cos: Any, sin: Any, mask: Any, query_scale: Any, key_scale: Any,
        scale: Any, repeats: Any, epsilon: Any,
    ) -> Any:  # fmt: skip
        def normed(rows: Any, which: str) -> Any:
            return norm(op, rows, {"queries": query_scale, "keys": key_scale}[which], epsilon)

        zeros = GUARDED.items() <= of_node.items()
        return rotary_attention(op, x, cos, sin, mask, scale, repeats, change=normed, zeros=zeros)

    return Pattern(one_node, body=body, any_row_order=True, covered_by=covered_by)


def _patterns() -> tuple[Pattern, ...]:
    patterns: list[Pattern] = []
    for norm, of_norm in ((in_onnx, {}), (in_onnx_18, {"axes_input": 1})):
        # The kernel gives zeros for rows without a key, whether the model asks for it or not.
        of_guarded = _pattern(norm, {**of_norm, **GUARDED})
        patterns += [_pattern(norm, of_norm, of_guarded), of_guarded]
    return tuple(patterns)


PATTERNS = _patterns()
