"""Define the nodes that ``lenet5`` replaces: the whole network, with the casts around it in 16-bit models."""

from __future__ import annotations

import functools
from typing import Any

from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.pattern import Pattern

_FLOAT = ELEMENT_TYPES["float32"].onnx_number
_FLOAT16 = ELEMENT_TYPES["float16"].onnx_number


def network(
    op: Any,
    x: Any,
    conv1_weight: Any,
    conv1_bias: Any,
    conv2_weight: Any,
    conv2_bias: Any,
    fc1_weight: Any,
    fc1_bias: Any,
    fc2_weight: Any,
    fc2_bias: Any,
    fc3_weight: Any,
    fc3_bias: Any,
) -> Any:
    for weight, bias in ((conv1_weight, conv1_bias), (conv2_weight, conv2_bias)):
        x = op.Relu(op.Conv(x, weight, bias, kernel_shape=[5, 5]))
        x = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    x = op.Flatten(x)
    x = op.Relu(op.Gemm(x, fc1_weight, fc1_bias, transB=1))
    x = op.Relu(op.Gemm(x, fc2_weight, fc2_bias, transB=1))
    return op.Gemm(x, fc3_weight, fc3_bias, transB=1)


@functools.wraps(network)  # the same inputs
def cast_in_and_out(op: Any, x: Any, *weights: Any) -> Any:
    return op.Cast(network(op, op.Cast(x, to=_FLOAT16), *weights), to=_FLOAT)


PATTERNS = (Pattern(cast_in_and_out), Pattern(network))
