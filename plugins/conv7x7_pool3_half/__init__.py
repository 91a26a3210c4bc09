"""Declare ``conv7x7_pool3_half``: the stem of a ResNet, which gives maps with channels last."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from .declaration import (
    ATTRIBUTES,
    AXES,
    BIAS,
    CLAIMS,
    FILTERS,
    FLOPS,
    OUTPUTS,
    PACKING,
    REQUIRES,
    TYPES,
    VARIANTS,
    X,
    reference,
)
from .pattern import PATTERNS

KERNEL = Kernel(
    name="conv7x7_pool3_half",
    doc="y = MaxPool(act(Conv(x, w, bias))), 7x7 filters at stride 2, 3x3 windows at stride 2, in fp16 and bf16",
    axes=AXES,
    inputs=(X, FILTERS, BIAS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 1, "w": 8, "k": 8, "activation": "none"},
        {"n": 3, "c": 2, "h": 13, "w": 40, "k": 72, "activation": "relu6"},
        {"n": 2, "c": 3, "h": 34, "w": 232, "k": 40, "activation": "relu"},
        {"n": 33, "c": 3, "h": 35, "w": 64, "k": 64, "activation": "none"},
        {"n": 5, "c": 3, "h": 224, "w": 224, "k": 64, "activation": "relu"},
    ),
    claims=CLAIMS,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
