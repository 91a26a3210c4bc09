"""Define the nodes that ``layer_norm`` replaces: LayerNormalization, and the nine nodes that stood for it before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of


def one_node(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    return op.LayerNormalization(x, scale, bias, epsilon=epsilon)


def by_power(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    distance = op.Sub(x, op.ReduceMean(x, axes=[-1]))
    variance = op.ReduceMean(op.Pow(distance, 2.0), axes=[-1])
    return _scaled(op, distance, variance, scale, bias, epsilon)


def by_product(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    distance = op.Sub(x, op.ReduceMean(x, axes=[-1]))
    variance = op.ReduceMean(op.Mul(distance, distance), axes=[-1])
    return _scaled(op, distance, variance, scale, bias, epsilon)


def by_power_of_opset_18(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    distance = op.Sub(x, op.ReduceMean(x, [-1]))
    variance = op.ReduceMean(op.Pow(distance, 2.0), [-1])
    return _scaled(op, distance, variance, scale, bias, epsilon)


def by_product_of_opset_18(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    distance = op.Sub(x, op.ReduceMean(x, [-1]))
    variance = op.ReduceMean(op.Mul(distance, distance), [-1])
    return _scaled(op, distance, variance, scale, bias, epsilon)


def _scaled(op: Any, distance: Any, variance: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
    deviation = op.Sqrt(op.Add(variance, epsilon))
    return op.Add(op.Mul(op.Div(distance, deviation), scale), bias)


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows. The last one is as long as the scale, also where x does not say so."""
    x = (*shapes["x"][:-1], *shapes["scale"])
    return Views(inputs={"x": rows_of(x)}, outputs={"y": x}, like="x")


WAYS = (one_node, by_power, by_product, by_power_of_opset_18, by_product_of_opset_18)
# How the body of an ONNX function writes each of them: the opsets of the last two have the one node.
BODIES = dict(zip(WAYS, (one_node, by_power, by_product, one_node, one_node), strict=True))
PATTERNS = tuple(Pattern(way, views=folded) for way in WAYS)
