"""Define the nodes that ``add_layer_norm`` replaces: a sum of two tensors of one shape, and its layer norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of

from ..layer_norm.pattern import WAYS


def after_sum(norm: Callable[..., Any]) -> Callable[..., Any]:
    """Return the pattern of the sum before a way to write a layer norm."""

    def graph(op: Any, x: Any, other: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        total = op.Add(x, other)
        return norm(op, total, scale, bias, epsilon), total

    graph.__name__ = f"sum_before_{norm.__name__}"
    return graph


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold all axes but the last one into rows. The last one is as long as the scale, also where x does not say so."""
    x, other = ((*shapes[name][:-1], *shapes["scale"]) for name in ("x", "other"))
    if x != other:
        return f"the sum of {list(x)} and {list(other)} repeats one of them"
    rows = rows_of(x)
    return Views(inputs={"x": rows, "other": rows}, outputs={"y": x, "sum": x}, like="x")


PATTERNS = tuple(Pattern(after_sum(norm), views=folded) for norm in WAYS)
