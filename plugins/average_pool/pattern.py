"""Define the nodes that ``average_pool`` replaces: an AveragePool with square windows."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def pool(op: Any, x: Any, size: Any, stride: Any, pad: Any, count_include_pad: Any) -> Any:
    return op.AveragePool(
        x,
        kernel_shape=[size, size],
        strides=[stride, stride],
        pads=[pad, pad, pad, pad],
        count_include_pad=count_include_pad,
    )


PATTERNS = (Pattern(pool),)
