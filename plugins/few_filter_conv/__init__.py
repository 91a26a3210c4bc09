"""Declare ``few_filter_conv``: a convolution to few filters, with bias and an optional activation."""

from pathlib import Path

from lenet_trt.dims import MULTIPROCESSORS, minimum
from lenet_trt.kernel import Kernel, Types

from ..few_channels.declaration import (
    ATTRIBUTES,
    AXES,
    FLOPS,
    INPUTS,
    MAX_ELEMENTS,
    NOT_CONV5X5,
    OUTPUTS,
    SMALL,
    at_least,
    direct,
    direct_tiles,
    k,
    large_tiles,
    many_tiles,
    reference,
    small_tiles,
    tile_rows,
    tiles_filled,
)
from ..windows.convolutions import convolution_patterns
from ..windows.declaration import FITS, c, n, out_h, out_w

LEAST_CHANNELS = 5
MOST_FILTERS = 8
# Tensor cores compute 8 filters, however few there are. Plain multiply-adds are faster for fewer than 8, where their
# tiles are not almost empty, and are enough for the GPU.
gpu_filled = minimum(2 * n * direct_tiles // (3 * MULTIPROCESSORS), 1)
direct_pays = (1 - at_least(k, 8)) * tiles_filled * gpu_filled

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
        # Not for images that are no higher than a small tile: half of a larger one would be empty.
        large_tiles(prefer=(direct_pays <= 0) & many_tiles & (out_h > tile_rows(SMALL[0]))),
        small_tiles(prefer=direct_pays <= 0),
        direct(),
    ),
    patterns=convolution_patterns(grouped=False, preference=-1),
    # Two images of 30x28 took 20.7 us in TensorRT on an H200 and its own layer 15.8, 32 of 56x56 half its layer's time.
    claims=(out_h * out_w > 1024, n * out_h * out_w >= 16_384),
    reference=reference,
    examples=(
        {"n": 1, "c": 5, "h": 3, "w": 3, "k": 1, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 2, "c": 19, "h": 30, "w": 28, "k": 7, "size": 5, "stride": 1, "pad": 2, "activation": "none"},
        {"n": 3, "c": 10, "h": 21, "w": 43, "k": 3, "size": 4, "stride": 2, "pad": 0, "activation": "relu6"},
        {"n": 2, "c": 16, "h": 33, "w": 36, "k": 8, "size": 7, "stride": 2, "pad": 3, "activation": "silu"},
        {"n": 35, "c": 9, "h": 56, "w": 60, "k": 5, "size": 3, "stride": 1, "pad": 1, "activation": "hardswish"},
    ),
    flops=FLOPS,
    max_elements=MAX_ELEMENTS,
    source_dir=Path(__file__).parent,
)
