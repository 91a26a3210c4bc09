"""Define the nodes that ``add_modulated_layer_norm`` replaces: a sum of two tensors of one shape before the norm."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern

from ..layer_norm.pattern import BODIES
from ..modulated_layer_norm.pattern import Norm, modulated, part, views_of_sum


def after_plain_sum(norm: Norm) -> Norm:
    """Return a way to write a layer norm, modulated, behind a sum."""

    def graph(op: Any, x: Any, other: Any, factor: Any, shift: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        total = op.Add(x, other)
        return modulated(op, norm(op, total, scale, bias, epsilon), factor, shift), total

    graph.__name__ = f"sum_before_{norm.__name__}"
    return graph


def in_onnx(norm: Norm) -> Norm:
    """Return the same with factors and shifts that are parts of tensors."""

    def body(
        op: Any,
        x: Any,
        other: Any,
        factor: Any,
        shift: Any,
        scale: Any,
        bias: Any,
        epsilon: Any,
        factor_part: Any,
        shift_part: Any,
    ) -> Any:
        of_images = part(op, factor, factor_part), part(op, shift, shift_part)
        return after_plain_sum(norm)(op, x, other, *of_images, scale, bias, epsilon)

    return body


VIEWS = views_of_sum("factor", "shift")
PATTERNS = tuple(Pattern(after_plain_sum(norm), views=VIEWS, body=in_onnx(body)) for norm, body in BODIES.items())
