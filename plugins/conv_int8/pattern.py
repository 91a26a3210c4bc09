"""Define the nodes that ``conv_int8`` replaces: a convolution, its ReLU and its pool, with the Q/DQ around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views


def _layer(relu: int, pool: int, flat: bool) -> Callable[..., Any]:
    """Return the graph; ``flat``: the maps are flattened before they are quantized."""

    def layer(
        op: Any,
        x: Any,
        x_scale: Any,
        w: Any,
        w_scale: Any,
        bias: Any,
        y_scale: Any,
        size: Any,
        stride: Any,
        pad: Any,
    ) -> Any:
        weights = op.DequantizeLinear(w, w_scale, axis=0)
        window = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [pad, pad, pad, pad]}
        y = op.Conv(op.DequantizeLinear(x, x_scale), weights, bias, **window)
        y = op.Relu(y) if relu else y
        y = op.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2]) if pool == 2 else y
        return op.QuantizeLinear(op.Flatten(y) if flat else y, y_scale, 0)

    return layer


def _flattened(shapes: Mapping[str, Shape]) -> Views:
    """Give the maps the shape that ``Flatten`` gives them: their bytes are the same."""
    return Views(inputs={}, outputs={"y": shapes["y"]})


def _patterns(relu: int, pool: int) -> tuple[Pattern, Pattern]:
    attributes, maps = {"relu": relu, "pool": pool}, _layer(relu, pool, flat=False)
    flat = _layer(relu, pool, flat=True)
    return Pattern(maps, attributes, body=maps), Pattern(flat, attributes, views=_flattened, body=maps)


PATTERNS = tuple(each for pool in (2, 1) for relu in (1, 0) for each in _patterns(relu, pool))
