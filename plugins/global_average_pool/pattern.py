"""Define the nodes that ``global_average_pool`` replaces: a mean over height and width that keeps these axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

# The axes as people write them: counted from the front or from the end, in either order.
_AXES = ([2, 3], [3, 2], [-2, -1], [-1, -2])


def pool(op: Any, x: Any) -> Any:
    return op.GlobalAveragePool(x)


def mean_over(axes: list[int], *, operand: bool) -> Callable[..., Any]:
    """Return the graph of a mean; from opset 18 on the axes are an operand."""

    def mean(op: Any, x: Any) -> Any:
        return op.ReduceMean(x, axes) if operand else op.ReduceMean(x, axes=axes)

    return mean


PATTERNS = (
    Pattern(pool),
    *(Pattern(mean_over(axes, operand=operand)) for axes in _AXES for operand in (True, False)),
)
