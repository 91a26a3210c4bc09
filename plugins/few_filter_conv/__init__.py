"""Declare ``few_filter_conv``: a convolution to few filters, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.kernel import Kernel, Types

from ..few_channels.declaration import (
    ATTRIBUTES,
    AXES,
    FLOPS,
    INPUTS,
    NOT_CONV5X5,
    OUTPUTS,
    at_least,
    direct,
    k,
    large_tiles,
    many_pixels,
    reference,
    small_tiles,
)
from ..windows.activation import convolution_patterns
from ..windows.declaration import FITS, c

LEAST_CHANNELS = 5
MOST_FILTERS = 8

KERNEL = Kernel(
    name="few_filter_conv",
    doc="y = act(Conv(x, w, bias)), square filters, from 5 channels or more to at most 8, in fp32",
    axes=AXES,
    inputs=INPUTS,
    outputs=OUTPUTS,
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=ATTRIBUTES,
    requires=FITS & NOT_CONV5X5 & (c >= LEAST_CHANNELS) & (k <= MOST_FILTERS),
    variants=(
        small_tiles(prefer=many_pixels <= 0),
        # Tiles of 8 filters do not pay for fewer.
        large_tiles(prefer=at_least(k, 5) >= 1),
        direct(),
    ),
    patterns=convolution_patterns(grouped=False, preference=-1),
    reference=reference,
    examples=(
        {"n": 1, "c": 5, "h": 3, "w": 3, "k": 1, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 2, "c": 19, "h": 30, "w": 28, "k": 7, "size": 5, "stride": 1, "pad": 2, "activation": "none"},
        {"n": 3, "c": 10, "h": 21, "w": 43, "k": 3, "size": 4, "stride": 2, "pad": 0, "activation": "relu6"},
        {"n": 2, "c": 16, "h": 33, "w": 36, "k": 8, "size": 7, "stride": 2, "pad": 3, "activation": "silu"},
        {"n": 35, "c": 9, "h": 56, "w": 60, "k": 5, "size": 3, "stride": 1, "pad": 1, "activation": "hardswish"},
    ),
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
