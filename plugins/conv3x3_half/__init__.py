"""Declare ``conv3x3_half``: a 3x3 convolution of channels-last maps, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from ..channels_last.declaration import (
    ATTRIBUTES,
    AXES,
    BIAS,
    CLAIMS,
    FILTERS,
    FLOPS,
    IN_GROUPS,
    JOINED_BY,
    OUTPUTS,
    PACKING,
    TYPES,
    X,
    reference,
    variants_of,
)
from ..channels_last.pattern import PLAIN
from ..windows.declaration import c

KERNEL = Kernel(
    name="conv3x3_half",
    doc="y = act(Conv(x, w, bias)), 3x3 filters with a padding of 1, channels last, in fp16 and bf16",
    axes=AXES,
    inputs=(X, FILTERS, BIAS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    packing=PACKING,
    variants=variants_of(c),
    patterns=PLAIN,
    reference=reference,
    examples=(
        {"n": 1, "c": 8, "h": 3, "w": 5, "k": 16, "activation": "gelu"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "activation": "relu"},
        {"n": 2, "c": 40, "h": 16, "w": 27, "k": 72, "activation": "silu"},
        {"n": 5, "c": 16, "h": 32, "w": 8, "k": 24, "activation": "hardswish"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 128, "activation": "relu"},
        {"n": 40, "c": 40, "h": 55, "w": 56, "k": 64, "activation": "relu6"},
        {"n": 29, "c": 24, "h": 57, "w": 60, "k": 24, "activation": "silu"},
        {"n": 5, "c": 264, "h": 14, "w": 14, "k": 200, "activation": "gelu"},
        {"n": 4, "c": 512, "h": 7, "w": 7, "k": 512, "activation": "relu"},
        {"n": 4, "c": 72, "h": 28, "w": 28, "k": 128, "activation": "none"},
        {"n": 2, "c": 3, "h": 16, "w": 70, "k": 12, "activation": "none"},
    ),
    claims=CLAIMS,
    in_groups=IN_GROUPS,
    joined_by=JOINED_BY,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
