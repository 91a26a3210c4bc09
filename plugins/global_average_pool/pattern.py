"""Define the nodes that ``global_average_pool`` replaces: a mean over height and width, also one without these axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

# The axes as people write them: counted from the front or from the end, in either order.
_AXES = ([2, 3], [3, 2], [-2, -1], [-1, -2])


def pool(op: Any, x: Any) -> Any:
    return op.GlobalAveragePool(x)


def mean_over(axes: list[int], *, operand: bool, **kept: int) -> Callable[..., Any]:
    """Return the graph of a mean; from opset 18 on the axes are an operand. ``kept``: keepdims, where it is 0."""

    def mean(op: Any, x: Any) -> Any:
        return op.ReduceMean(x, axes, **kept) if operand else op.ReduceMean(x, axes=axes, **kept)

    return mean


def of_attribute(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, axes=[2, 3])


def of_operand(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, op.ints(2, 3))


def without_axes(shapes: Mapping[str, Shape]) -> Views:
    """Leave out height and width, of one pixel, in ONNX's shape of the means."""
    return Views(inputs={}, outputs={"y": shapes["x"][:2]})


def _means(axes: list[int], *, operand: bool) -> tuple[Pattern, Pattern]:
    body = of_operand if operand else of_attribute
    kept, left_out = mean_over(axes, operand=operand), mean_over(axes, operand=operand, keepdims=0)
    return Pattern(kept, body=body), Pattern(left_out, views=without_axes, body=body)


PATTERNS = (
    Pattern(pool),
    *(pattern for axes in _AXES for operand in (True, False) for pattern in _means(axes, operand=operand)),
)
