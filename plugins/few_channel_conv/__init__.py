"""Declare ``few_channel_conv``: a convolution from few channels, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.dims import MULTIPROCESSORS, minimum
from lenet_trt.kernel import MAX_GRID_Y, Kernel, float_types

from ..few_channels.declaration import (
    ATTRIBUTES,
    AXES,
    FLOPS,
    INPUTS,
    LARGE,
    MAX_ELEMENTS,
    NOT_CONV5X5,
    OUTPUTS,
    SMALL,
    at_least,
    by_wgmma,
    direct,
    direct_tiles,
    k,
    large_tiles,
    many_tiles,
    reference,
    small_tiles,
    tensor_work,
    tiles_filled,
)
from ..windows.convolutions import convolution_patterns
from ..windows.declaration import FITS, IN_FLOATS, IN_GROUPS, c, n, size

MOST_CHANNELS = 4
# Tensor cores add 8 products a step. A sum of no more is faster by plain multiply-adds, where their tiles are not
# almost empty and are enough for the GPU: fetching and writing a tile takes longer than its products.
one_step = 1 - at_least(c * size * size, 9)
direct_pays = one_step * tiles_filled * minimum(n * direct_tiles // MULTIPROCESSORS, 1)

KERNEL = Kernel(
    name="few_channel_conv",
    doc="y = act(Conv(x, w, bias)), square filters, from 1 to 4 channels",
    axes=AXES,
    inputs=INPUTS,
    outputs=OUTPUTS,
    types=float_types(fp32=3e-6),
    attributes=ATTRIBUTES,
    # A block of the variants for little work has 32 filters, and blocks of filters lie along y.
    requires=FITS & NOT_CONV5X5 & (c <= MOST_CHANNELS) & (k <= MAX_GRID_Y * 32),
    claims=(IN_FLOATS,),
    in_groups=IN_GROUPS,
    variants=(
        by_wgmma(),
        # For more filters than a small tile has, and where no more of the large ones is empty.
        large_tiles(prefer=(direct_pays <= 0) & (k > 32) & many_tiles & (tensor_work(LARGE) <= tensor_work(SMALL))),
        small_tiles(prefer=direct_pays <= 0),
        direct(),
    ),
    patterns=convolution_patterns(grouped=False, preference=-1),
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 3, "w": 3, "k": 1, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 3, "c": 3, "h": 37, "w": 45, "k": 64, "size": 7, "stride": 2, "pad": 3, "activation": "relu"},
        {"n": 2, "c": 3, "h": 64, "w": 96, "k": 16, "size": 3, "stride": 2, "pad": 1, "activation": "hardswish"},
        {"n": 5, "c": 1, "h": 33, "w": 40, "k": 70, "size": 5, "stride": 1, "pad": 2, "activation": "silu"},
        {"n": 2, "c": 4, "h": 19, "w": 130, "k": 33, "size": 6, "stride": 1, "pad": 1, "activation": "none"},
        {"n": 2, "c": 2, "h": 20, "w": 70, "k": 20, "size": 2, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 67, "c": 3, "h": 112, "w": 112, "k": 32, "size": 3, "stride": 2, "pad": 1, "activation": "silu"},
    ),
    flops=FLOPS,
    max_elements=MAX_ELEMENTS,
    source_dir=Path(__file__).parent,
)
