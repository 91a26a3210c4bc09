"""Declare ``channel_layer_norm``: LayerNormalization over the channels of maps, with channels last in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Tensor, float_types
from lenet_trt.pattern import Pattern

from ..layer_norm.declaration import EPSILON, WEIGHTS, k, normalized, variants
from ..layer_norm.pattern import WAYS
from ..linear.declaration import HOPPER
from ..windows.declaration import h, n, w

EIGHT = 8
PIXELS = n * h * w


def reference(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, epsilon: float) -> np.ndarray:
    """Compute the norm of each pixel."""
    return np.moveaxis(normalized(np.moveaxis(x, 1, -1), scale, bias, epsilon), -1, 1)


def between_transpositions(norm: Callable[..., Any]) -> Pattern:
    """Return the pattern of a way to write a layer norm, between two transpositions."""

    def nodes(op: Any, x: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        return op.Transpose(norm(op, op.Transpose(x, perm=[0, 2, 3, 1]), scale, bias, epsilon), perm=[0, 3, 1, 2])

    nodes.__name__ = f"{norm.__name__}_of_channels"
    return Pattern(nodes)


KERNEL = Kernel(
    name="channel_layer_norm",
    doc="y = LayerNormalization(x, scale, bias) over the channels of maps, channels last, in fp16 and bf16",
    axes=(
        Axis("n", "images"),
        Axis("k", "channels", static=True),
        Axis("h", "height of an image"),
        Axis("w", "width of an image"),
    ),
    inputs=(Tensor("x", (n, k, h, w), "T", "maps", layout="hwc8"), *WEIGHTS),
    outputs=(Tensor("y", (n, k, h, w), "T", "normalised maps", layout="hwc8"),),
    types=float_types()[1:],
    attributes=(EPSILON,),
    variants=tuple(each for each in variants("channel_layer_norm", rows=PIXELS) if each.source != "row.cu"),
    patterns=tuple(map(between_transpositions, WAYS)),
    reference=reference,
    requires=k.multiple_of(EIGHT) & (PIXELS <= INT32_MAX),
    examples=(
        {"n": 1, "k": 8, "h": 1, "w": 1},
        {"n": 3, "k": 40, "h": 7, "w": 5},
        {"n": 1, "k": 200, "h": 20, "w": 19},
        {"n": 2, "k": 768, "h": 3, "w": 3},
        {"n": 11, "k": 768, "h": 10, "w": 10},
        {"n": 1, "k": 4104, "h": 2, "w": 3},
    ),
    claims=(HOPPER,),
    flops=8 * PIXELS * k,
    source_dir=Path(__file__).parent,
)
