"""Define the nodes that ``max_pool`` replaces: a MaxPool with square windows, where ``maxpool2`` does not fit."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def pool(op: Any, x: Any, size: Any, stride: Any, pad: Any) -> Any:
    return op.MaxPool(x, kernel_shape=[size, size], strides=[stride, stride], pads=[pad, pad, pad, pad])


PATTERNS = (Pattern(pool, preference=-1),)
