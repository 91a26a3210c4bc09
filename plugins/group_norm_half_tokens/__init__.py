"""Declare ``group_norm_half_tokens``: the norm of ``group_norm_half``, and the transposition to tokens behind it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Tensor
from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..group_norm.declaration import WEIGHTS, c, n
from ..group_norm.declaration import reference as norm
from ..group_norm.pattern import in_onnx, in_rows, one_node
from ..group_norm_half.declaration import X, norm_of_maps, variants
from ..patch_embedding.pattern import CHANNELS_LAST
from ..windows.declaration import h, w

NAME = "group_norm_half_tokens"


def reference(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, activation: str, group: int, epsilon: float
) -> np.ndarray:
    """Compute the norm and the activation, then put channels last."""
    return np.moveaxis(norm(x, scale, bias, activation=activation, group=group, epsilon=epsilon), 1, -1)


def views(shapes: Mapping[str, Shape]) -> Views | str:
    """Have an image as rows of pixels, whatever axes it and its tokens have in ONNX."""
    batch, channels, *image = shapes["x"]
    return Views(inputs={"x": (batch, channels, *in_rows(image))}, outputs={"y": shapes["y"]})


def patterns() -> Iterator[Pattern]:
    """Yield the pattern of pixels, of those of an image along one axis, and of a sequence."""
    ways: tuple[dict[str, Any], ...] = (
        {"perm": CHANNELS_LAST},
        {"perm": CHANNELS_LAST, "fold": 1},
        {"perm": [0, 2, 1]},
    )
    for way in ways:
        yield Pattern(nodes(**way), {"activation": "none"}, preference=1, views=views, body=body)


def nodes(**way: Any) -> Callable[..., Any]:
    """Return the norm, and a transposition."""

    def graph(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
        return op.Transpose(one_node(op, x, scale, bias, group, epsilon), **way)

    return graph


def body(op: Any, x: Any, scale: Any, bias: Any, group: Any, epsilon: Any) -> Any:
    """The same of an image with two axes, with nodes of any opset."""
    return op.Transpose(in_onnx(image_axes=2)(op, x, scale, bias, group, epsilon), perm=CHANNELS_LAST)


KERNEL = norm_of_maps(
    name=NAME,
    doc="y = Transpose(act(GroupNormalization(x, scale, bias))), x channels last in memory, in fp16 and bf16",
    inputs=(X, *WEIGHTS),
    outputs=(Tensor("y", (n, h, w, c), "T", "tokens"),),
    variants=variants(NAME),
    patterns=tuple(patterns()),
    reference=reference,
    flops=8 * n * c * h * w,
    source_dir=Path(__file__).parent,
)
