"""Declare ``conv5x5_bias_relu_pool2``: 5x5 convolution with bias, ReLU and 2x2 max-pool."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, Tensor, float_types

from ..conv5x5.declaration import AXES, CONV_FLOPS, EXAMPLES, INPUTS, convolve, h, k, n, variants, w
from ..maxpool2 import reference as pool
from .pattern import PATTERNS


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Compute the convolution, ReLU, and the largest element of each window."""
    return pool(np.maximum(convolve(x, weights, bias), 0))


KERNEL = Kernel(
    name="conv5x5_bias_relu_pool2",
    doc="y = MaxPool(Relu(Conv(x, w, bias))), 5x5 filters, stride 1, no padding; 2x2 windows, stride 2",
    axes=AXES,
    inputs=INPUTS,
    outputs=(Tensor("y", (n, k, (h - 4) // 2, (w - 4) // 2), "T", "pooled feature maps"),),
    types=float_types(),
    requires=(h >= 6) & (w >= 6),
    variants=variants("conv5x5_bias_relu_pool2", quads=((h - 4) // 2) * ((w - 4) // 2), pooled=True),
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    flops=CONV_FLOPS,
    source_dir=Path(__file__).parent,
)
