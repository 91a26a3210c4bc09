"""Declare ``conv1d_half``: a convolution along one axis, with bias and an optional activation, channels last."""

from pathlib import Path

from lenet_trt.kernel import Kernel, Tensor

from ..channels_last.declaration import JOINED_BY, PACKED
from ..many_channels.variants import k
from ..windows.declaration import n, out_w
from .declaration import (
    ATTRIBUTES,
    AXES,
    CLAIMS,
    EXAMPLES,
    FLOPS,
    INPUTS,
    PACKING,
    REQUIRES,
    TYPES,
    reference,
    variants,
)
from .pattern import PLAIN

NAME = "conv1d_half"
KERNEL = Kernel(
    name=NAME,
    doc="y = act(Conv(x, w, bias)) along one axis, at stride 1 or 2, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=INPUTS,
    outputs=(Tensor("y", (n, k, 1, out_w), "T", "feature maps", layout=PACKED),),
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=variants(NAME),
    patterns=PLAIN,
    reference=reference,
    examples=EXAMPLES,
    claims=CLAIMS,
    joined_by=JOINED_BY,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
