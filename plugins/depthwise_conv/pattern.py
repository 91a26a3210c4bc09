"""Define the nodes that ``depthwise_conv`` replaces: a convolution of each channel, with or without an activation.

Source: what torch's two exporters write for torch.nn's activations at opsets 11 to 23.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

_SIXTH = 0.1666666716337204  # 1/6 as a float32


def _relu(op: Any, y: Any) -> Any:
    return op.Relu(y)


def _relu6(op: Any, y: Any) -> Any:
    return op.Clip(y, 0.0, 6.0)


def _hardswish(op: Any, y: Any) -> Any:
    return op.HardSwish(y)


def _hardswish_by_hard_sigmoid(op: Any, y: Any) -> Any:
    return op.Mul(y, op.HardSigmoid(y, alpha=_SIXTH))


def _silu(op: Any, y: Any) -> Any:
    return op.Mul(y, op.Sigmoid(y))


def _silu_turned(op: Any, y: Any) -> Any:
    return op.Mul(op.Sigmoid(y), y)


def _gelu(op: Any, y: Any) -> Any:
    return op.Gelu(y)


def _followed_by(activation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the graph of a depthwise convolution and what ``activation`` makes of its result."""

    def convolution(op: Any, x: Any, w: Any, bias: Any, group: Any, size: Any, stride: Any, pad: Any) -> Any:
        pads, strides = [pad, pad, pad, pad], [stride, stride]
        return activation(op, op.Conv(x, w, bias, kernel_shape=[size, size], group=group, strides=strides, pads=pads))

    return convolution


PATTERNS = (
    Pattern(_followed_by(lambda op, y: y), {"activation": "none"}),
    Pattern(_followed_by(_relu), {"activation": "relu"}),
    Pattern(_followed_by(_relu6), {"activation": "relu6"}),
    Pattern(_followed_by(_hardswish), {"activation": "hardswish"}),
    Pattern(_followed_by(_hardswish_by_hard_sigmoid), {"activation": "hardswish"}),
    Pattern(_followed_by(_silu), {"activation": "silu"}),
    Pattern(_followed_by(_silu_turned), {"activation": "silu"}),
    Pattern(_followed_by(_gelu), {"activation": "gelu"}),
)
