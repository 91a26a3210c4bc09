"""Define the nodes that ``global_average_pool`` replaces: a mean over height and width that keeps these axes."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def pool(op: Any, x: Any) -> Any:
    return op.GlobalAveragePool(x)


def mean(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, [2, 3])


def mean_counted_from_the_end(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, [-2, -1])


def mean_with_axes_as_attribute(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, axes=[2, 3])


def mean_with_axes_from_the_end_as_attribute(op: Any, x: Any) -> Any:
    return op.ReduceMean(x, axes=[-2, -1])


PATTERNS = tuple(
    map(
        Pattern,
        (
            pool,
            mean,
            mean_counted_from_the_end,
            mean_with_axes_as_attribute,
            mean_with_axes_from_the_end_as_attribute,
        ),
    )
)
