"""Declare ``conv1x1_half``: a 1x1 convolution of channels-last maps, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from ..channels_last.declaration import JOINED_BY, OUTPUTS, X
from ..linear.declaration import HOPPER
from ..pointwise.declaration import reference
from ..windows.convolutions import patterns_in_halves
from .declaration import ATTRIBUTES, AXES, BESIDE, CLAIMS, EXAMPLES, FLOPS, PACKING, REQUIRES, TYPES, WEIGHTS, variants

NAME = "conv1x1_half"
KERNEL = Kernel(
    name=NAME,
    doc="y = act(Conv(x, w, bias)), 1x1 filters at stride 1, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=variants(NAME),
    patterns=patterns_in_halves(kernel_shape=[1, 1]),
    reference=reference,
    examples=EXAMPLES,
    claims=CLAIMS,
    beside_plugins=BESIDE,
    in_groups=HOPPER,
    joined_by=JOINED_BY,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
