"""Define the nodes that ``lenet5_int8`` replaces: the whole network with Q/DQ at the input of each layer."""

from __future__ import annotations

import functools
from typing import Any

from lenet_trt.pattern import Pattern


def network(
    op: Any,
    x: Any,
    x_scale: Any,
    conv1_weight: Any,
    conv2_weight: Any,
    fc1_weight: Any,
    fc2_weight: Any,
    fc3_weight: Any,
    pool1_scale: Any,
    features_scale: Any,
    hidden1_scale: Any,
    hidden2_scale: Any,
    conv1_scale: Any,
    conv1_bias: Any,
    conv2_scale: Any,
    conv2_bias: Any,
    fc1_scale: Any,
    fc1_bias: Any,
    fc2_scale: Any,
    fc2_bias: Any,
    fc3_scale: Any,
    fc3_bias: Any,
) -> Any:
    x = op.DequantizeLinear(x, x_scale)
    for weight, scale, bias, next_scale, flatten in (
        (conv1_weight, conv1_scale, conv1_bias, pool1_scale, False),
        (conv2_weight, conv2_scale, conv2_bias, features_scale, True),
    ):
        x = op.Relu(op.Conv(x, op.DequantizeLinear(weight, scale, axis=0), bias, kernel_shape=[5, 5]))
        x = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
        x = _again(op, op.Flatten(x) if flatten else x, next_scale)
    for weight, scale, bias, next_scale in (
        (fc1_weight, fc1_scale, fc1_bias, hidden1_scale),
        (fc2_weight, fc2_scale, fc2_bias, hidden2_scale),
    ):
        x = _again(op, op.Relu(_dense(op, x, weight, scale, bias)), next_scale)
    return _dense(op, x, fc3_weight, fc3_scale, fc3_bias)


@functools.wraps(network)  # the same inputs
def from_float(op: Any, x: Any, x_scale: Any, *others: Any) -> Any:
    return network(op, op.QuantizeLinear(x, x_scale, 0), x_scale, *others)


def _again(op: Any, x: Any, scale: Any) -> Any:
    return op.DequantizeLinear(op.QuantizeLinear(x, scale, 0), scale)


def _dense(op: Any, x: Any, weight: Any, scale: Any, bias: Any) -> Any:
    return op.Gemm(x, op.DequantizeLinear(weight, scale, axis=0), bias, transB=1)


PATTERNS = (Pattern(from_float), Pattern(network))
