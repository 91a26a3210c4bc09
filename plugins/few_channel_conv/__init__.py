"""Declare ``few_channel_conv``: a convolution from few channels or to few, with bias and an optional activation."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, DimLike, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Launch, Tensor, Types, Variant

from ..windows.activation import ACTIVATION, ACTIVATIONS, convolution_patterns
from ..windows.declaration import FITS, IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, size, stride, w, windows_of

(k,) = axes("k")
# Few channels of x, or few filters.
MOST_CHANNELS = 4
MOST_FILTERS = 8
DIRECT_WARPS = 4
DIRECT_ROWS = 8
# Pixels up to which small tiles were faster on an H200.
FEW_PIXELS = 1 << 16
# What every architecture from sm_80 on has.
TENSOR_SHARED_LIMIT = 99 * 1024


def reference(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str, size: int, stride: int, pad: int
) -> np.ndarray:
    """Compute the convolution, then the activation."""
    windows = windows_of(x, size, stride, pad, 0.0)
    sums = np.moveaxis(np.tensordot(windows, weights, axes=([1, 4, 5], [1, 2, 3])), -1, 1)
    return ACTIVATIONS[activation](sums + bias[:, None, None])


def at_least(value: Dim, least: int) -> Dim:
    """Return 1 where a size is at least so large, else 0."""
    return minimum(value // least, 1)


many = at_least(c, MOST_CHANNELS + 1)
is_float = size_of("T") // 4


def direct() -> Variant:
    """Make the variant of kernel.cu; the numbers follow it."""
    groups = 1 + at_least(k, 9) + 2 * at_least(k, 17)
    columns = 16 + 16 * at_least((out_w - 1) - (out_w - 1) // 32 * 32, 16)
    rows = DIRECT_ROWS * (32 // columns) * (DIRECT_WARPS // groups)
    tiles = ceil_div(out_w, columns) * ceil_div(out_h, rows)
    launch = Launch((n * tiles, ceil_div(k, 8 * groups), 1), (32 * DIRECT_WARPS, 1, 1), extras=(n,))
    return Variant("direct", launch, "plain multiply-adds, a thread 8 rows of 8 filters")


def tensor(name: str, source: str, *, warps: int, filter_tiles: int, blocks: DimLike, prefer: Condition) -> Variant:
    """Make a variant on tensor cores. Source: ``TensorPlan`` in tensor_core.cuh; ``blocks`` a multiprocessor."""
    tiles = minimum(ceil_div(k, 8), filter_tiles)
    is_pixel = maximum(is_float, many)
    chunk = minimum(c, 8 * (2 - is_float))
    planes = is_pixel * ceil_div(chunk * size_of("T"), 4) + (1 - is_pixel) * chunk
    row_words = is_pixel * size + (1 - is_pixel) * ceil_div(size, 2)
    steps = ceil_div(planes * size * row_words, 8)
    runs = ceil_div(out_w, 4) - 1
    runs_across = 4 + 4 * at_least(runs - runs // 8 * 8, 4)
    columns, rows = 4 * runs_across, warps * (8 // runs_across)
    pixels_2 = is_pixel * (stride // 2)
    pairs_1 = (1 - is_pixel) * (2 - stride)
    halves = 2 * (ceil_div(columns + (size + 1) // 2, 4) * 4 + 2)
    across = pixels_2 * halves + (1 - pixels_2) * (columns + row_words * (1 + pairs_1))
    pitch = ceil_div(across, 4) * 4 + (row_words - row_words // 4 * 4)
    patch = planes * ((rows - 1) * stride + size) * pitch * 4
    shared = steps * tiles * 32 * size_of("T") * 4 + steps * 32 + patch
    units = n * ceil_div(out_w, columns) * ceil_div(out_h, rows)
    return Variant(
        name,
        Launch(
            (minimum(units, blocks * MULTIPROCESSORS), ceil_div(k, 8 * tiles), 1),
            (32 * warps, 1, 1),
            extras=(n,),
            shared_bytes=shared,
        ),
        f"on tensor cores, tiles of {warps * 32} pixels",
        source=source,
        min_sm=80,
        when=shared <= TENSOR_SHARED_LIMIT,
        prefer=prefer,
    )


KERNEL = Kernel(
    name="few_channel_conv",
    doc="y = act(Conv(x, w, bias)), square filters, from 1 to 4 channels or to at most 8",
    axes=(
        Axis("n", "images"),
        Axis("c", "channels of x", static=True),
        *IMAGE,
        Axis("k", "filters", static=True),
    ),
    inputs=(
        Tensor("x", (n, c, h, w), "T", "images"),
        Tensor("w", (k, c, size, size), "T", "filters", weight=True),
        Tensor("bias", (k,), "T", "bias of each filter", weight=True),
    ),
    outputs=(Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=3e-6),
        Types("fp16", {"T": "float16"}, tolerance=1e-3),
        Types("bf16", {"T": "bfloat16"}, tolerance=8e-3),
    ),
    attributes=(ACTIVATION, IntegerAttribute("size", 2, 7, (3,), "rows and columns of a filter"), STRIDE, PAD),
    requires=FITS & (minimum(c - MOST_CHANNELS, k - MOST_FILTERS) <= 0),
    variants=(
        # Many pixels of many filters, or of many channels, go to large tiles.
        tensor(
            "small",
            "small.cu",
            warps=4,
            filter_tiles=4,
            blocks=4,
            prefer=minimum(at_least(n * out_h * out_w, FEW_PIXELS + 1), maximum(many, at_least(k, 33))) <= 0,
        ),
        # Tiles of 8 filters do not pay for fewer in floats, where a product takes three.
        tensor(
            "large",
            "tensor_core.cu",
            warps=8,
            filter_tiles=8,
            blocks=4 - 2 * at_least(k, 33),
            prefer=many * is_float * (1 - at_least(k, 5)) <= 0,
        ),
        direct(),
    ),
    patterns=convolution_patterns(grouped=False, preference=-1),
    reference=reference,
    examples=(
        {"n": 1, "c": 1, "h": 3, "w": 3, "k": 1, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
        {"n": 3, "c": 3, "h": 37, "w": 45, "k": 64, "size": 7, "stride": 2, "pad": 3, "activation": "relu"},
        {"n": 2, "c": 3, "h": 64, "w": 96, "k": 16, "size": 3, "stride": 2, "pad": 1, "activation": "hardswish"},
        {"n": 5, "c": 1, "h": 33, "w": 40, "k": 70, "size": 5, "stride": 1, "pad": 2, "activation": "silu"},
        {"n": 2, "c": 19, "h": 30, "w": 28, "k": 7, "size": 5, "stride": 1, "pad": 2, "activation": "none"},
        {"n": 3, "c": 10, "h": 21, "w": 43, "k": 3, "size": 4, "stride": 2, "pad": 0, "activation": "relu6"},
        {"n": 2, "c": 4, "h": 19, "w": 130, "k": 33, "size": 6, "stride": 1, "pad": 1, "activation": "none"},
        {"n": 2, "c": 2, "h": 20, "w": 70, "k": 20, "size": 2, "stride": 1, "pad": 0, "activation": "relu"},
        {"n": 67, "c": 3, "h": 112, "w": 112, "k": 32, "size": 3, "stride": 2, "pad": 1, "activation": "silu"},
    ),
    flops=2 * n * k * out_h * out_w * c * size * size,
    source_dir=Path(__file__).parent,
)
