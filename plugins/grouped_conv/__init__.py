"""Declare ``grouped_conv``: a convolution in groups of few channels, with bias and an optional activation."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, maximum, minimum, remainder, size_of
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Launch, Tensor, Variant, float_types

from ..windows.activation import ACTIVATIONS
from ..windows.convolutions import convolution_attributes, convolution_patterns
from ..windows.declaration import FITS, IMAGE, h, n, out_h, out_w, pad, run, size, stride, strips, w, windows_of

group, cg, k = axes("group cg k")
THREADS = 128
# Channels of y that a thread computes, and pixels of each: 4 of float, 8 of 16 bits.
OUT = 8
PIXELS = 16 // size_of("T")
# Shared memory of a block that every architecture has: for the filters of kernel.cu, and for tiles of the other two.
SHARED_LIMIT = 48 * 1024
# Channels of a unit of tensor_core.cu, and its blocks of a multiprocessor.
UNIT, BLOCKS = 8, 8
# Pixels of a thread of staged.cu, and the zeros before a row of x.
RUN, LEFT = 4, 4

# Attributes of most examples, which keep the size of an image.
SAME = {"size": 3, "stride": 1, "pad": 1}


def reference(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    *,
    activation: str,
    group: int,
    size: int,
    stride: int,
    pad: int,
) -> np.ndarray:
    """Compute the convolution of each group, then the activation."""
    pieces = zip(np.split(x, group, axis=1), np.split(weights, group), strict=True)
    sums = [np.einsum("nchwij,kcij->nkhw", windows_of(a, size, stride, pad, 0.0), b, optimize=True) for a, b in pieces]
    return ACTIVATIONS[activation](np.concatenate(sums, axis=1) + bias[:, None, None])


def direct() -> Variant:
    """Make the variant of kernel.cu."""
    blocks = ceil_div(n * ceil_div(out_h, PIXELS // run) * strips, THREADS)
    launch = Launch((blocks, group * ceil_div(k // group, OUT), 1), (THREADS, 1, 1), extras=(n,))
    return Variant("direct", launch, "from global memory, a thread a few pixels of up to 8 channels")


def tensor_core() -> Variant:
    """Make the variant of tensor_core.cu. Source: ``Plan`` there.

    On an H200 it was the faster one at all sizes measured; with groups of 4 channels, and in floats, whose products are
    three, such kernels were mostly slower than plain multiply-adds.
    """
    units = cg // UNIT
    filters = k // group
    steps = ceil_div(size * size * units, 2)
    # Two products of 8 filters where there are so many, and their filters fit in registers.
    across = 1 + (1 - minimum(1, remainder(filters, 2 * UNIT))) * (1 - minimum(1, steps // 10))
    bands = ceil_div(out_h, maximum(1, 512 // out_w))
    rows = ceil_div(out_h, bands)
    border = ((out_w - 1) * stride + size) * ((rows - 1) * stride + size)
    shared = units * border * 16
    shares = group * (filters // (UNIT * across))
    blocks = minimum(n * bands, maximum(1, ceil_div(BLOCKS * MULTIPROCESSORS, shares)))
    return Variant(
        "tensor_core",
        Launch((blocks, shares, 1), (THREADS, 1, 1), extras=(n,), shared_bytes=shared),
        "on tensor cores, 16 pixels of 8 or 16 filters a warp",
        source="tensor_core.cu",
        min_sm=80,
        types=("fp16", "bf16"),
        when=cg.multiple_of(UNIT) & filters.multiple_of(UNIT) & (shared <= SHARED_LIMIT),
    )


def staged() -> Variant:
    """Make the variant of staged.cu. Source: ``Plan`` there.

    All loads of a block are under way at once. That pays where blocks are few: one image took two thirds of the time of
    ``direct`` on an H200, 32 as long or longer.
    """
    vectors = maximum(1, w // RUN)
    rows = THREADS // vectors
    filters = minimum(k // group, OUT)
    plane = (rows + size - 1) * (LEFT + w) + LEFT
    shared = 4 * cg * (size * size * ceil_div(filters, 4) * 4 + plane)
    blocks = ceil_div(n * (h + pad) - pad, rows)
    shares = group * ceil_div(k // group, OUT)
    return Variant(
        "staged",
        Launch((blocks, shares, 1), (THREADS, 1, 1), extras=(n,), shared_bytes=shared),
        "from shared memory, a thread four pixels of up to 8 channels",
        source="staged.cu",
        min_sm=80,
        types=("fp32",),
        when=stride.equals(1)
        & (2 * pad + 1).equals(size)
        & w.multiple_of(RUN)
        & (w <= RUN * THREADS)
        & (shared <= SHARED_LIMIT),
        prefer=blocks * shares <= 4 * MULTIPROCESSORS,
    )


KERNEL = Kernel(
    name="grouped_conv",
    doc="y = act(Conv(x, w, bias)), 3x3 or 5x5 filters, groups of 2 to 16 channels",
    axes=(
        Axis("n", "images"),
        *IMAGE,
        Axis("cg", "channels of a group", static=True),
        Axis("k", "filters of all groups", static=True),
    ),
    inputs=(
        Tensor("x", (n, group * cg, h, w), "T", "images"),
        Tensor("w", (k, cg, size, size), "T", "filters", weight=True),
        Tensor("bias", (k,), "T", "bias of each filter", weight=True),
    ),
    outputs=(Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),),
    types=float_types(),
    attributes=convolution_attributes(IntegerAttribute("group", 2, 8191, (2,), "groups"), (3, 5)),
    requires=FITS
    & (cg >= 2)
    & (cg <= 16)
    & k.multiple_of(group)
    & (k >= 2 * group)
    & (k <= 32 * group)
    & (cg * size * size * 4 * ceil_div(minimum(k // group, OUT), 4) * 4 <= SHARED_LIMIT),
    variants=(tensor_core(), staged(), direct()),
    patterns=convolution_patterns(),
    reference=reference,
    examples=(
        {"n": 1, "h": 3, "w": 3, "cg": 2, "k": 4, "group": 2, **SAME, "activation": "gelu"},
        {"n": 3, "h": 9, "w": 7, "cg": 3, "k": 15, "group": 3, "size": 3, "stride": 2, "pad": 1, "activation": "relu6"},
        {"n": 2, "h": 14, "w": 14, "cg": 16, "k": 36, "group": 3, **SAME, "activation": "relu"},
        {
            "n": 5,
            "h": 17,
            "w": 16,
            "cg": 4,
            "k": 24,
            "group": 6,
            "size": 5,
            "stride": 1,
            "pad": 2,
            "activation": "silu",
        },
        {"n": 9, "h": 56, "w": 56, "cg": 8, "k": 64, "group": 8, **SAME, "activation": "none"},
        {
            "n": 7,
            "h": 20,
            "w": 30,
            "cg": 8,
            "k": 32,
            "group": 2,
            "size": 3,
            "stride": 2,
            "pad": 0,
            "activation": "hardswish",
        },
        {"n": 3, "h": 12, "w": 28, "cg": 16, "k": 36, "group": 3, **SAME, "activation": "relu"},
    ),
    flops=2 * n * k * out_h * out_w * cg * size * size,
    source_dir=Path(__file__).parent,
)
