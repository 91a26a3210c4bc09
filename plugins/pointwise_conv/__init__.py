"""Declare ``pointwise_conv``: a convolution with 1x1 filters, bias and an optional activation, in fp16 and bf16."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from ..pointwise.declaration import (
    ATTRIBUTES,
    AXES,
    EXAMPLES,
    FLOPS,
    OUTPUTS,
    PACKING,
    TYPES,
    VARIANTS,
    WEIGHTS,
    X,
    reference,
)
from ..windows.convolutions import patterns_in_halves
from ..windows.declaration import IN_FLOATS, IN_GROUPS

KERNEL = Kernel(
    name="pointwise_conv",
    doc="y = act(Conv(x, w, bias)), 1x1 filters at stride 1, in fp16 and bf16",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    packing=PACKING,
    claims=(IN_FLOATS,),  # never: in a group alone
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=patterns_in_halves(kernel_shape=[1, 1]),
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
