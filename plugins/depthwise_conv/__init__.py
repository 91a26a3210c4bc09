"""Declare ``depthwise_conv``: a filter, a bias and an optional activation for each channel."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Launch, Tensor, Variant, float_types

from ..windows.activation import ACTIVATIONS
from ..windows.convolutions import convolution_attributes, convolution_patterns
from ..windows.declaration import (
    FITS,
    IMAGE,
    IN_FLOATS,
    IN_GROUPS,
    direct_launch,
    h,
    n,
    out_h,
    out_w,
    pad,
    run,
    size,
    stride,
    strips,
    w,
    windows_of,
)

(group,) = axes("group")
BAND_TILES = 4
BAND_WARPS = 4
# What every architecture has.
BAND_SHARED_LIMIT = 64 * 1024
# Of columns.cuh: threads of a block, rows of x that it has in shared memory, and the least rows of outputs.
COLUMN_THREADS, COLUMN_ROWS, COLUMN_LEAST = 128, 12, 24


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
    """Compute the convolution, then the activation."""
    sums = np.einsum("nchwij,cij->nchw", windows_of(x, size, stride, pad, 0.0), weights[:, 0])
    return ACTIVATIONS[activation](sums + bias[:, None, None])


def bands(name: str, types: str, min_sm: int) -> Variant:
    """Make a variant on tensor cores. Source: ``BandPlan`` in tensor_core.cuh."""
    row_tiles, column_tiles = ceil_div(out_h, 16), ceil_div(out_w, 8)
    band_tiles = minimum(row_tiles, BAND_TILES)
    chunks = ceil_div(column_tiles, 8)
    blocks = maximum(stride * chunks * ceil_div(column_tiles, chunks) + 2, 1 + ceil_div(w, 8))
    pitch = 8 * (blocks // 2 * 2 + 1)
    shared = BAND_WARPS * ((band_tiles * 16 - 1) * stride + size) * pitch * size_of("T")
    units = n * group * ceil_div(row_tiles, band_tiles)
    return Variant(
        name,
        Launch((ceil_div(units, BAND_WARPS), 1, 1), (32 * BAND_WARPS, 1, 1), extras=(n,), shared_bytes=shared),
        "on tensor cores, a warp a band of rows",
        source="tensor_core.cu",
        entry="depthwise_conv_tensor",
        min_sm=min_sm,
        types=(types,),
        when=shared <= BAND_SHARED_LIMIT,
        prefer=size.equals(7) & w.multiple_of(8) & (out_h >= 48) & (n * group >= 1024),
    )


def columns() -> Variant:
    """Make the variant of columns.cuh. Source: ``ColumnPlan`` there."""
    warps, of_run = COLUMN_THREADS // 32, run * size_of("T")
    planes = maximum(32 // strips, 1)
    blocks = ceil_div(n * group, warps * planes)
    # Where there are few planes, blocks divide their rows.
    parts = maximum(1, minimum(3 * MULTIPROCESSORS // blocks, out_h // COLUMN_LEAST))
    border = ceil_div(pad, run)
    pitch = strips + ceil_div(border, 128 // of_run) * (128 // of_run)
    shared = warps * COLUMN_ROWS * (planes * pitch + border) * of_run
    enough = maximum(6 * blocks // (7 * MULTIPROCESSORS), blocks * out_h // (80 * MULTIPROCESSORS)) >= 1
    return Variant(
        "columns",
        Launch((blocks, parts, 1), (COLUMN_THREADS, 1, 1), extras=(n,), shared_bytes=shared),
        "from shared memory, a lane down a few columns",
        source="columns.cu",
        min_sm=80,
        when=stride.equals(1) & (2 * pad + 1).equals(size) & (run >= 2) & (strips <= 32),
        prefer=(size >= 5) & enough,
    )


def direct(name: str, source: str, rows: int, prefer: Condition | None = None) -> Variant:
    """Make a variant of direct.cuh."""
    launch = direct_launch(n * group, rows, n)
    return Variant(name, launch, f"from global memory, {rows} rows a thread", source, prefer=prefer)


many = n * group * out_h * out_w >= 1 << 18

KERNEL = Kernel(
    name="depthwise_conv",
    doc="y = act(Conv(x, w, bias)), one filter of 3x3, 5x5 or 7x7 for each channel",
    axes=(Axis("n", "images"), *IMAGE),
    inputs=(
        Tensor("x", (n, group, h, w), "T", "images"),
        Tensor("w", (group, 1, size, size), "T", "the filter of each channel", weight=True),
        Tensor("bias", (group,), "T", "bias of each channel", weight=True),
    ),
    outputs=(Tensor("y", (n, group, out_h, out_w), "T", "feature maps"),),
    types=float_types(),
    attributes=convolution_attributes(IntegerAttribute("group", 1, 1 << 20, (3,), "channels"), (3, 5, 7)),
    requires=FITS,
    claims=(IN_FLOATS, size >= 7),
    in_groups=IN_GROUPS,
    variants=(
        bands("tensor_core", "fp16", 75),
        bands("tensor_core_bf16", "bf16", 80),
        columns(),
        direct("tall", "tall.cu", rows=7, prefer=(size >= 5) & stride.equals(1) & (out_h <= 15) & many),
        direct("direct", "kernel.cu", rows=4),
    ),
    patterns=convolution_patterns(),
    reference=reference,
    examples=(
        {"n": 1, "h": 3, "w": 3, "group": 1, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 3, "h": 7, "w": 9, "group": 5, "size": 3, "stride": 2, "pad": 1, "activation": "hardswish"},
        {"n": 5, "h": 14, "w": 14, "group": 9, "size": 7, "stride": 1, "pad": 3, "activation": "silu"},
        {"n": 2, "h": 31, "w": 33, "group": 3, "size": 7, "stride": 2, "pad": 3, "activation": "none"},
        {"n": 2, "h": 53, "w": 20, "group": 5, "size": 7, "stride": 1, "pad": 3, "activation": "gelu"},
        {"n": 129, "h": 7, "w": 7, "group": 48, "size": 5, "stride": 1, "pad": 2, "activation": "relu6"},
        {"n": 2, "h": 60, "w": 120, "group": 2, "size": 5, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 17, "h": 48, "w": 56, "group": 64, "size": 7, "stride": 1, "pad": 3, "activation": "none"},
        {"n": 7, "h": 9, "w": 1030, "group": 2, "size": 3, "stride": 2, "pad": 0, "activation": "relu6"},
    ),
    flops=2 * n * group * out_h * out_w * size * size,
    source_dir=Path(__file__).parent,
)
