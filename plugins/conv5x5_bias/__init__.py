"""Declare ``conv5x5_bias``: 5x5 convolution with bias and an optional activation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lenet_trt.dims import ceil_div
from lenet_trt.kernel import Attribute, Kernel, Tensor, float_types

from ..conv5x5.declaration import AXES, CONV_FLOPS, EXAMPLES, INPUTS, convolve, h, k, n, variants, w
from .pattern import PATTERNS

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": np.positive,
    "relu": lambda y: np.maximum(y, 0),
    "tanh": np.tanh,
}


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution, then the activation."""
    return ACTIVATIONS[activation](convolve(x, weights, bias))


KERNEL = Kernel(
    name="conv5x5_bias",
    doc="y = act(Conv(x, w, bias)), 5x5 filters, stride 1, no padding; act is nothing, ReLU or tanh",
    axes=AXES,
    inputs=INPUTS,
    outputs=(Tensor("y", (n, k, h - 4, w - 4), "T", "feature maps"),),
    types=float_types(),
    attributes=(Attribute("activation", tuple(ACTIVATIONS), "what follows the convolution"),),
    requires=(h >= 5) & (w >= 5),
    variants=variants("conv5x5_bias", quads=(h - 4) * ceil_div(w - 4, 4), pooled=False),
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    flops=CONV_FLOPS,
    source_dir=Path(__file__).parent,
)
