"""Define the nodes of ``gate_add_modulated_layer_norm``: a sum with what a gate lets through, before the norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lenet_trt.pattern import Pattern

from ..layer_norm.pattern import BODIES
from ..modulated_layer_norm.pattern import ORDERS, Norm, gated_sum, modulated, part, views_of_sum

VIEWS = views_of_sum("gate", "factor", "shift")


def after_sum(norm: Norm, **order: bool) -> Norm:
    """Return a way to write a layer norm, modulated, behind the sum with its operands in one order."""

    def graph(
        op: Any, x: Any, other: Any, gate: Any, factor: Any, shift: Any, scale: Any, bias: Any, epsilon: Any
    ) -> Any:
        total = gated_sum(op, x, other, gate, **order)
        return modulated(op, norm(op, total, scale, bias, epsilon), factor, shift), total

    graph.__name__ = f"gated_sum_before_{norm.__name__}"
    return graph


def in_onnx(norm: Norm, **order: bool) -> Norm:
    """Return the same with gates, factors and shifts that are parts of tensors."""

    def body(
        op: Any,
        x: Any,
        other: Any,
        gate: Any,
        factor: Any,
        shift: Any,
        scale: Any,
        bias: Any,
        epsilon: Any,
        factor_part: Any,
        shift_part: Any,
        gate_part: Any,
    ) -> Any:
        parts = ((gate, gate_part), (factor, factor_part), (shift, shift_part))
        return after_sum(norm, **order)(op, x, other, *(part(op, *each) for each in parts), scale, bias, epsilon)

    return body


def patterns() -> Iterator[Pattern]:
    """Yield the pattern of each way to write a layer norm, and each order of operands."""
    for norm, body in BODIES.items():
        for order in ORDERS:
            yield Pattern(after_sum(norm, **order), views=VIEWS, body=in_onnx(body, **order))


PATTERNS = tuple(patterns())
