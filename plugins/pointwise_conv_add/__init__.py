"""Declare ``pointwise_conv_add``: a convolution with 1x1 filters, a residual connection, an activation, in 16 bits."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel

from ..pointwise.declaration import (
    ATTRIBUTES,
    AXES,
    EXAMPLES,
    FLOPS,
    OTHER,
    OUTPUTS,
    PACKING,
    PIXELS,
    TYPES,
    VARIANTS,
    WEIGHTS,
    X,
    k,
)
from ..pointwise.declaration import reference as convolution
from ..windows.activation import ACTIVATIONS
from ..windows.convolutions import patterns_of_sums_in_halves
from ..windows.declaration import IN_FLOATS, IN_GROUPS


def reference(
    x: np.ndarray, other: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Compute the convolution, add, then compute the activation."""
    return ACTIVATIONS[activation](convolution(x, weights, bias, activation="none") + other)


KERNEL = Kernel(
    name="pointwise_conv_add",
    doc="y = act(Conv(x, w, bias) + other), 1x1 filters at stride 1, in fp16 and bf16",
    axes=AXES,
    inputs=(X, OTHER, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    packing=PACKING,
    claims=(IN_FLOATS,),  # never: in a group alone
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=patterns_of_sums_in_halves(kernel_shape=[1, 1]),
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS + PIXELS * k,
    source_dir=Path(__file__).parent,
)
