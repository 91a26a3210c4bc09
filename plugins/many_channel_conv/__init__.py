"""Declare ``many_channel_conv``: a convolution from many channels to many, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.kernel import Kernel

from ..few_channels.declaration import reference as convolution
from ..many_channels.declaration import (
    ATTRIBUTES,
    AXES,
    EIGHTS,
    MEASURED,
    OUTPUTS,
    PACKING,
    PATCHES,
    POINTS_PAY,
    REQUIRES,
    TYPES,
    VARIANTS,
    WEIGHTS,
    WORK,
    X,
)
from ..many_channels.variants import k
from ..windows.convolutions import convolution_patterns
from ..windows.declaration import c, size, stride

KERNEL = Kernel(
    name="many_channel_conv",
    doc="y = act(Conv(x, w, bias)), square filters, from 16 channels or more to 16 or more, in fp32",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=VARIANTS,
    patterns=convolution_patterns(grouped=False, preference=-2),
    reference=convolution,
    examples=(
        {"n": 1, "c": 16, "h": 3, "w": 5, "k": 16, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 3, "c": 24, "h": 7, "w": 7, "k": 40, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 2, "c": 32, "h": 13, "w": 18, "k": 72, "size": 1, "stride": 1, "pad": 0, "activation": "none"},
        {"n": 5, "c": 48, "h": 14, "w": 14, "k": 136, "size": 1, "stride": 1, "pad": 0, "activation": "relu6"},
        {"n": 3, "c": 29, "h": 9, "w": 7, "k": 58, "size": 1, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 25, "c": 280, "h": 28, "w": 28, "k": 136, "size": 1, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 33, "c": 58, "h": 28, "w": 28, "k": 116, "size": 1, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 4, "c": 16, "h": 21, "w": 43, "k": 64, "size": 3, "stride": 2, "pad": 1, "activation": "silu"},
        {"n": 1, "c": 64, "h": 28, "w": 28, "k": 128, "size": 1, "stride": 2, "pad": 0, "activation": "none"},
        {"n": 2, "c": 16, "h": 17, "w": 20, "k": 24, "size": 5, "stride": 1, "pad": 2, "activation": "hardswish"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 128, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 5, "c": 128, "h": 27, "w": 27, "k": 120, "size": 3, "stride": 1, "pad": 1, "activation": "none"},
        {"n": 5, "c": 264, "h": 14, "w": 14, "k": 200, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 4, "c": 512, "h": 7, "w": 7, "k": 512, "size": 3, "stride": 1, "pad": 1, "activation": "relu"},
        {"n": 9, "c": 40, "h": 56, "w": 55, "k": 136, "size": 3, "stride": 2, "pad": 1, "activation": "relu"},
        {"n": 33, "c": 64, "h": 28, "w": 28, "k": 128, "size": 3, "stride": 2, "pad": 1, "activation": "relu"},
        {"n": 7, "c": 264, "h": 13, "w": 13, "k": 512, "size": 3, "stride": 2, "pad": 1, "activation": "none"},
    ),
    # Where it was the faster one in TensorRT 8.6.0, which has Winograd kernels for 3x3 filters at stride 1.
    claims=tuple(
        MEASURED & sizes
        for sizes in (
            POINTS_PAY,
            EIGHTS & (stride >= 2),
            EIGHTS & (size >= 2) & (c >= 128) & (WORK.pixels <= 2048),
            PATCHES.when & (c >= 32) & (k >= 32),
        )
    ),
    flops=WORK.flops,
    source_dir=Path(__file__).parent,
)
