"""Define the nodes that ``add_modulated_layer_norm`` replaces: a sum of two tensors of one shape before the norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..layer_norm.pattern import BODIES
from ..modulated_layer_norm.pattern import between_axes, modulated, tokens_of


def after_plain_sum(norm: Callable[..., Any], *, in_onnx: bool) -> Callable[..., Any]:
    """Return a way to write a layer norm, modulated, behind a sum; ``in_onnx``: factors and shifts have two axes."""

    def graph(op: Any, x: Any, other: Any, factor: Any, shift: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        if in_onnx:
            factor, shift = (between_axes(op, each) for each in (factor, shift))
        total = op.Add(x, other)
        return modulated(op, norm(op, total, scale, bias, epsilon), factor, shift), total

    graph.__name__ = f"sum_before_{norm.__name__}_{in_onnx}"
    return graph


def views(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold what lies between the images and the columns into tokens."""
    x, other = ((*shapes[name][:-1], *shapes["scale"]) for name in ("x", "other"))
    if x != other:
        return f"the sum of {list(x)} and {list(other)} repeats one of them"
    found = tokens_of(shapes, "x", ("factor", "shift"))
    if isinstance(found, str):
        return found
    return Views(inputs={**found, "other": found["x"]}, outputs={"y": x, "sum": x}, like="x")


PATTERNS = tuple(
    Pattern(after_plain_sum(norm, in_onnx=False), views=views, body=after_plain_sum(body, in_onnx=True))
    for norm, body in BODIES.items()
)
