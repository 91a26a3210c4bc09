"""Define the nodes that ``scale_add_softmax`` replaces: scores of attention, scaled or not, a mask, a Softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, repeated


def scaled(op: Any, x: Any, mask: Any, scale: Any) -> Any:
    return op.Softmax(op.Add(op.Mul(x, scale), mask), axis=-1)


def not_scaled(op: Any, x: Any, mask: Any) -> Any:
    return op.Softmax(op.Add(x, mask), axis=-1)


def folded(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold the leading dimensions into [outer, repeat, inner]: the mask has all but those of ``repeat``."""
    x, mask = shapes["x"], shapes["mask"]
    if not x or x[-1:] != mask[-1:]:
        return f"the mask {list(mask)} has not the length of the rows of {list(x)}"
    parts = repeated(x[:-1], mask[:-1])
    if isinstance(parts, str):
        return parts
    outer, repeat, inner = parts
    return Views(
        inputs={"x": (outer, repeat, inner, x[-1]), "mask": (outer, 1, inner, x[-1])},
        outputs={"y": x},
        like="x",
    )


PATTERNS = (Pattern(scaled, views=folded), Pattern(not_scaled, {"scale": 1.0}, views=folded))
