"""Define the node that ``rms_norm`` replaces; ``fuse/rms_norms.py`` writes the nodes of exporters as this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views, rows_of

Norm = Callable[..., Any]


def one_node(op: Any, x: Any, scale: Any, epsilon: Any) -> Any:
    return op.RMSNormalization(x, scale, epsilon=epsilon)


def one_node_of_opset_18(op: Any, x: Any, scale: Any, epsilon: Any) -> Any:
    return op.RMSNormalization(x, scale, epsilon=epsilon, axes_input=1)


def in_onnx(op: Any, x: Any, scale: Any, epsilon: Any) -> Any:
    """Compute the norm with nodes of any opset."""
    return _scaled(op, x, op.ReduceMean(op.Mul(x, x), axes=[-1]), scale, epsilon)


def in_onnx_18(op: Any, x: Any, scale: Any, epsilon: Any) -> Any:
    """Compute the norm with nodes from opset 18 on, where an axis is an input."""
    return _scaled(op, x, op.ReduceMean(op.Mul(x, x), op.ints(-1)), scale, epsilon)


def _scaled(op: Any, x: Any, mean_square: Any, scale: Any, epsilon: Any) -> Any:
    return op.Mul(op.Div(x, op.Sqrt(op.Add(mean_square, epsilon))), scale)


def folded(shapes: Mapping[str, Shape]) -> Views:
    """Fold all axes but the last one into rows. The last one is as long as the scale, also where x does not say so."""
    x = (*shapes["x"][:-1], *shapes["scale"])
    return Views(inputs={"x": rows_of(x)}, outputs={"y": x}, like="x")


# The node, and what it is in ONNX.
WAYS: tuple[tuple[Norm, Norm], ...] = ((one_node, in_onnx), (one_node_of_opset_18, in_onnx_18))
PATTERNS = tuple(Pattern(node, views=folded, body=body) for node, body in WAYS)
