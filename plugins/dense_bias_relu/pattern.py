"""Define the nodes that ``dense_bias_relu`` replaces: a dense layer, with or without a ReLU."""

from __future__ import annotations

from typing import Any

from lenet_trt.pattern import Pattern


def dense_alone(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Gemm(x, w, bias, transB=1)


def dense_relu(op: Any, x: Any, w: Any, bias: Any) -> Any:
    return op.Relu(dense_alone(op, x, w, bias))


PATTERNS = (Pattern(dense_relu, {"relu": 1}), Pattern(dense_alone, {"relu": 0}))
