"""Define the nodes that ``maxpool2`` replaces: max-pooling over 2x2 windows side by side."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def pool(op: Any, x: Any) -> Any:
    return op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])


PATTERNS = (Pattern(pool),)
