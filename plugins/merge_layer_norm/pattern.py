"""Define the nodes that ``merge_layer_norm`` replaces: patches of an image that are merged, and their layer norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel import INT32_MAX
from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..layer_norm.pattern import by_power, by_power_of_opset_18, by_product, by_product_of_opset_18, one_node


def merged(op: Any, x: Any) -> Any:
    """Return the nodes that merge patches: a pixel, the one below it, and the two to the right of these."""

    def pixels(row: int, column: int) -> Any:
        return op.Slice(x, op.ints(row, column), op.ints(INT32_MAX, INT32_MAX), op.ints(1, 2), op.ints(2, 2))

    return op.Concat(pixels(0, 0), pixels(1, 0), pixels(0, 1), pixels(1, 1), axis=-1)


def after_merging(norm: Callable[..., Any], in_onnx: Callable[..., Any]) -> Pattern:
    """Return the pattern of merged patches before a way to write a layer norm; ``in_onnx`` computes the same norm."""

    def graph(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        return norm(op, op.MergePatches(x), scale, bias, epsilon)

    def body(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        return in_onnx(op, merged(op, x), scale, bias, epsilon)

    graph.__name__ = f"merged_before_{norm.__name__}"
    return Pattern(graph, views=rows_as_seen, body=body)


def rows_as_seen(shapes: Mapping[str, Shape]) -> Views | str:
    """Take the rows of y in any number of axes."""
    if "y" not in shapes:
        return "the shape of what is normalised is not known"
    return Views(inputs={"x": shapes["x"]}, outputs={"y": shapes["y"]})


PATTERNS = (
    after_merging(one_node, one_node),
    *(after_merging(way, by_product) for way in (by_power, by_product)),
    *(after_merging(way, one_node) for way in (by_power_of_opset_18, by_product_of_opset_18)),
)
