"""Define the nodes that ``conv5x5_bias`` replaces: an unpadded 5x5 convolution, with or without an activation."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def conv_alone(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Conv(x, w, bias, kernel_shape=[5, 5])


def conv_relu(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Relu(conv_alone(op, x, w, bias))


def conv_tanh(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Tanh(conv_alone(op, x, w, bias))


PATTERNS = (
    Pattern(conv_alone, {"activation": "none"}),
    Pattern(conv_relu, {"activation": "relu"}),
    Pattern(conv_tanh, {"activation": "tanh"}),
)
