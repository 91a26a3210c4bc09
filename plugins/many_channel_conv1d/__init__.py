"""Declare ``many_channel_conv1d``: a convolution along one axis from many channels to many, which may be dilated.

Source: the numbers of its tiles follow ``Patch`` in many_channels/patch.cuh.
"""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes, ceil_div, minimum
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Tensor

from ..many_channels.declaration import CHANNELS, MEASURED, TYPES, packing
from ..many_channels.variants import BLOCK, Patches, Work, c, k, n, stage_bytes, variants
from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import STRIDE
from .pattern import PATTERNS

w, size, stride, pad, dilation = axes("w size stride pad dilation")
reach = dilation * (size - 1) + 1
out_w = (w + 2 * pad - reach) // stride + 1
SHARED_LIMIT = 227 * 1024  # kMostShared

# A tile of y is 256 neighbours, or 128 of each of two sequences where they have no more.
_across = 1 + minimum(1, (out_w - 1) // 128)
_images = 2 // _across
_stage_bytes = stage_bytes((128 * _across + reach - 1) * _images, size)
WORK = Work(pixels=n * out_w, taps=size)
PATCHES = Patches(
    # With one tap three stages have no room for the sums of a tile; two taps were not tried.
    when=stride.equals(1) & (size >= 3) & (2 * _stage_bytes <= SHARED_LIMIT),
    tiles=ceil_div(n, _images) * ceil_div(out_w, 128 * _across) * ceil_div(k, BLOCK),
    stages=3 - minimum(1, 3 * _stage_bytes // (SHARED_LIMIT + 1)),
    stage_bytes=_stage_bytes,
)
WEIGHTS, PACKING = packing(size)


def reference(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    *,
    activation: str,
    size: int,
    stride: int,
    pad: int,
    dilation: int,
) -> np.ndarray:
    """Compute the convolution, then the activation."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, dilation * (size - 1) + 1, axis=2)
    taps = windows[:, :, ::stride, ::dilation]
    sums = np.moveaxis(np.tensordot(taps, weights, axes=([1, 3], [1, 2])), -1, 1)
    return ACTIVATIONS[activation](sums + bias[:, None])


KERNEL = Kernel(
    name="many_channel_conv1d",
    doc="y = act(Conv(x, w, bias)) along one axis, dilated or not, from 16 channels or more to 16 or more, in fp32",
    axes=(
        Axis("n", "sequences"),
        Axis("c", "channels of x", static=True),
        Axis("w", "steps of a sequence", static=True),
        Axis("k", "filters", static=True),
    ),
    inputs=(Tensor("x", (n, c, w), "T", "sequences"), *WEIGHTS),
    outputs=(Tensor("y", (n, k, out_w), "T", "feature maps"),),
    types=TYPES,
    attributes=(
        ACTIVATION,
        IntegerAttribute("size", 1, 16, (3,), "taps of a filter"),
        STRIDE,
        IntegerAttribute("pad", 0, 4096, (1, 0), "steps on each side of a sequence"),
        IntegerAttribute("dilation", 1, 4096, (1, 2), "from tap to tap"),
    ),
    requires=CHANNELS & (w + 2 * pad >= reach),
    packing=PACKING,
    variants=variants(WORK, PATCHES),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 16, "w": 15, "k": 16, "size": 3, "stride": 1, "pad": 1, "dilation": 1, "activation": "gelu"},
        {"n": 3, "c": 24, "w": 49, "k": 40, "size": 5, "stride": 1, "pad": 4, "dilation": 2, "activation": "relu"},
        {"n": 2, "c": 32, "w": 234, "k": 72, "size": 1, "stride": 1, "pad": 0, "dilation": 1, "activation": "none"},
        {"n": 5, "c": 16, "w": 301, "k": 64, "size": 16, "stride": 2, "pad": 6, "dilation": 1, "activation": "silu"},
        {"n": 33, "c": 64, "w": 500, "k": 64, "size": 9, "stride": 1, "pad": 16, "dilation": 4, "activation": "none"},
        {
            "n": 5,
            "c": 40,
            "w": 2000,
            "k": 136,
            "size": 9,
            "stride": 1,
            "pad": 128,
            "dilation": 32,
            "activation": "relu",
        },
        {"n": 67, "c": 80, "w": 99, "k": 72, "size": 3, "stride": 1, "pad": 0, "dilation": 3, "activation": "none"},
        {"n": 2, "c": 264, "w": 1001, "k": 200, "size": 7, "stride": 1, "pad": 3, "dilation": 1, "activation": "relu6"},
        {"n": 1, "c": 512, "w": 384, "k": 512, "size": 3, "stride": 1, "pad": 1, "dilation": 1, "activation": "relu"},
    ),
    claims=(MEASURED & PATCHES.when & (c >= 32) & (k >= 32),),
    flops=WORK.flops,
    source_dir=Path(__file__).parent,
)
