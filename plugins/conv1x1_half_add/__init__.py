"""Declare ``conv1x1_half_add``: a 1x1 convolution of channels-last maps, a residual connection, an activation."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from ..channels_last.declaration import JOINED_BY, OTHER, OUTPUTS, X
from ..conv1x1_half.declaration import (
    ATTRIBUTES,
    AXES,
    BESIDE,
    CLAIMS_OF_SUMS,
    EXAMPLES,
    FLOPS,
    PACKING,
    REQUIRES,
    TYPES,
    WEIGHTS,
    variants,
)
from ..linear.declaration import HOPPER
from ..pointwise.declaration import PIXELS, k
from ..pointwise_conv_add import reference
from ..windows.convolutions import patterns_of_sums_in_halves

NAME = "conv1x1_half_add"
KERNEL = Kernel(
    name=NAME,
    doc="y = act(Conv(x, w, bias) + other), 1x1 filters at stride 1, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=(X, OTHER, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=variants(NAME),
    patterns=patterns_of_sums_in_halves(kernel_shape=[1, 1]),
    reference=reference,
    examples=EXAMPLES,
    claims=CLAIMS_OF_SUMS,
    beside_plugins=BESIDE,
    in_groups=HOPPER,
    joined_by=JOINED_BY,
    flops=FLOPS + PIXELS * k,
    source_dir=Path(__file__).parent,
)
