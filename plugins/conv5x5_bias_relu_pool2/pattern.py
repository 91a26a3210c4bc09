"""Define the nodes that ``conv5x5_bias_relu_pool2`` replaces: unpadded 5x5 convolution, ReLU, 2x2 max-pooling."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def conv_relu_pool(op: Any, x: Any, w: Any, bias: Any) -> Any:
    activated = op.Relu(op.Conv(x, w, bias, kernel_shape=[5, 5]))
    return op.MaxPool(activated, kernel_shape=[2, 2], strides=[2, 2])


PATTERNS = (Pattern(conv_relu_pool),)
