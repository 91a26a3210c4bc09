"""Define the nodes that ``softmax`` replaces: a Softmax over the last axis, or the last one with a size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of


def over_last(op: Any, x: Any) -> Any:
    return op.Softmax(x, axis=-1)


def over_second(op: Any, x: Any) -> Any:
    return op.Softmax(x, axis=1)


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows."""
    return Views(inputs={"x": rows_of(shapes["x"])}, outputs={"y": shapes["x"]}, like="x")


def squeezed(shapes: Mapping[str, Shape]) -> Views | str:
    """Leave out the axes after the second one, which have size 1: then a Softmax of any opset is over the second."""
    x = shapes["x"]
    if any(size != 1 for size in x[2:]):
        return f"not all axes of {list(x)} after that of the Softmax have size 1"
    return Views(inputs={"x": x[:2]}, outputs={"y": x})


PATTERNS = (Pattern(over_last, views=folded), Pattern(over_second, views=squeezed))
