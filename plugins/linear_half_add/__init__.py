"""Declare ``linear_half_add``: a dense layer over the channels of pixels, and what is added to it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Axis, BesidePlugins, Kernel, Tensor, float_types
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views

from ..dense.declaration import inputs, outputs
from ..linear import reference as dense
from ..linear.declaration import BIAS, HOPPER, Product
from ..linear.packing import packing_of_rows, weights_in_blocks
from ..linear_half import ENOUGH
from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import h, n, w

TO_CHANNELS_FIRST = [0, 3, 1, 2]
PIXELS = n * h * w
LAYER = Product(PIXELS, inputs, outputs, extras=(PIXELS,), mapped=True)


def reference(
    x: np.ndarray, other: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Compute the layer, put channels first, add, then compute the activation."""
    return ACTIVATIONS[activation](np.moveaxis(dense(x, weights, bias, activation="none"), -1, 1) + other)


def patterns() -> Iterator[Pattern]:
    """Yield the layer, a transposition to channels first, and the sum: of pixels, and of tokens that become maps."""
    for more, views in (({}, None), ({"unfold": 1}, of_tokens)):
        for other_first in (False, True):
            yield Pattern(nodes(other_first, **more), {"activation": "none"}, preference=1, views=views, body=in_onnx)


def nodes(other_first: bool, **more: int) -> Callable[..., Any]:
    """Return the nodes as torchvision, timm and diffusers write them, or, with ``other`` first, transformers."""

    def graph(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
        y = op.Transpose(op.Gemm(x, w, bias, transB=1), perm=TO_CHANNELS_FIRST, **more)
        return op.Add(other, y) if other_first else op.Add(y, other)

    return graph


def of_tokens(shapes: Mapping[str, Shape]) -> Views | str:
    """Unfold x [n, h w, in] to the pixels of what is added."""
    x, other = shapes["x"], shapes["other"]
    if len(x) != 3 or len(other) != 4 or UNKNOWN in other[2:]:
        return "x is no tokens, or what is added no maps of a known size"
    return Views(inputs={"x": (other[0], *other[2:], x[2])}, outputs={"y": other}, like="other")


def in_onnx(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
    """The same in ONNX, whose Gemm has two axes."""
    y = op.Add(op.MatMul(x, op.Transpose(w, perm=[1, 0])), bias)
    return op.Add(op.Transpose(y, perm=TO_CHANNELS_FIRST), other)


KERNEL = Kernel(
    name="linear_half_add",
    doc="y = act(Gemm(x, w, bias) + other) for each pixel of channels-last maps, w [out, in], in fp16 and bf16",
    axes=(
        Axis("n", "images"),
        Axis("h", "height of an image"),
        Axis("w", "width of an image"),
        Axis("in", "channels of x", static=True),
        Axis("out", "channels of y", static=True),
    ),
    inputs=(
        Tensor("x", (n, h, w, inputs), "T", "pixels"),
        Tensor("other", (n, outputs, h, w), "T", "what is added", layout="hwc8"),
        weights_in_blocks(LAYER),
        BIAS,
    ),
    outputs=(Tensor("y", (n, outputs, h, w), "T", "feature maps", layout="hwc8"),),
    types=float_types()[1:],
    attributes=(ACTIVATION,),
    requires=LAYER.requires,
    packing=packing_of_rows(3),
    variants=(*LAYER.wide(), *LAYER.narrow(element_bytes=2), LAYER.direct("linear_half_add_direct")),
    patterns=tuple(patterns()),
    reference=reference,
    examples=(
        {"n": 1, "h": 3, "w": 5, "in": 32, "out": 40, "activation": "none"},
        {"n": 1, "h": 7, "w": 19, "in": 512, "out": 96, "activation": "none"},
        {"n": 3, "h": 9, "w": 10, "in": 160, "out": 264, "activation": "none"},
        {"n": 1, "h": 14, "w": 14, "in": 768, "out": 192, "activation": "none"},
        {"n": 21, "h": 14, "w": 14, "in": 512, "out": 256, "activation": "none"},
        {"n": 33, "h": 14, "w": 14, "in": 192, "out": 768, "activation": "none"},
        # Several tiles a multiprocessor, of up to 256 and up to 192 outputs, with many inputs.
        {"n": 1, "h": 70, "w": 82, "in": 960, "out": 1024, "activation": "none"},
        {"n": 1, "h": 60, "w": 70, "in": 960, "out": 1280, "activation": "none"},
    ),
    claims=(HOPPER & (LAYER.flops >= ENOUGH),),
    beside_plugins=BesidePlugins(sizes=HOPPER),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
