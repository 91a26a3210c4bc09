"""Declare what the 5x5 convolution kernels share; the headers beside this file have their common device code.

Source: the numbers follow ``Conv5x5Shape``, ``FfmaPlan`` and ``MmaPlan`` in those headers.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import Axis, Launch, Tensor, Variant

n, c, h, w, k = axes("n c h w k")
FILTER = 5

FFMA_THREADS = 128
FFMA_FILTERS = 10
MMA_WARPS = 3
WGMMA_WARPS = 4
WGMMA_IMAGES = 4
# Blocks are persistent and compute piece after piece; these numbers per multiprocessor were the fastest on an H200.
FFMA_BLOCKS = 8
SPLIT_BLOCKS = 4
WGMMA_BLOCKS = 3
TENSOR_CORE_BLOCKS = 4
TENSOR_CORE_BLOCKS_POOLED = 8
# With fewer filters times channels, multiply-adds are faster: three products would not fill the tensor cores.
SPLIT_LEAST_WORK = 16
# With one channel they are also faster up to about an image a multiprocessor: 64 images with 50 filters took 9.9 us on
# an H200 instead of 14.9, and 256 images 20.9 instead of 17.0.
FILLS_TENSOR_CORES = n >= (2 - minimum(c, 2)) * MULTIPROCESSORS
# Up to this number of images a multiprocessor, tensor cores are good even where most of what they compute is quads and
# filters that are not there. With more, split has to use half of its three products, and 16 bits a quarter of the one.
EMPTY_IMAGES = 8
QUADS_PER_UNIT = 16
# The shared memory that every architecture has, minus the static shared memory of the kernels.
MMA_SHARED_LIMIT = 60 * 1024
# With more, fewer than WGMMA_BLOCKS blocks would fit on a multiprocessor of sm_90; that was never measured.
WGMMA_SHARED_LIMIT = 72 * 1024
# wgmma.cuh has products with these numbers of columns; for 32, 50 and 64 filters it was the faster variant on an H200.
WGMMA_FILTERS = (25, 64)

AXES = (
    Axis("n", "images"),
    Axis("c", "channels", static=True),
    Axis("h", "height of an image", static=True),
    Axis("w", "width of an image", static=True),
    Axis("k", "filters", static=True),
)
INPUTS = (
    Tensor("x", (n, c, h, w), "T", "images"),
    Tensor("w", (k, c, FILTER, FILTER), "T", "filters", weight=True),
    Tensor("bias", (k,), "T", "bias of each filter", weight=True),
)
# With the last two examples every persistent block computes several tiles, on any GPU of today.
EXAMPLES = (
    {"n": 1, "c": 1, "h": 28, "w": 28, "k": 6},
    {"n": 3, "c": 6, "h": 12, "w": 12, "k": 16},
    {"n": 5, "c": 3, "h": 13, "w": 17, "k": 7},
    {"n": 37, "c": 1, "h": 28, "w": 28, "k": 50},
    {"n": 4001, "c": 1, "h": 8, "w": 9, "k": 3},
    {"n": 1999, "c": 1, "h": 11, "w": 15, "k": 33},
)
CONV_FLOPS = 2 * n * k * (h - 4) * (w - 4) * c * FILTER * FILTER


def convolve(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Compute the convolution with bias: no padding, stride 1."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (FILTER, FILTER), axis=(2, 3))
    sums = np.tensordot(windows, weights, axes=([1, 4, 5], [1, 2, 3]))
    return np.moveaxis(sums, -1, 1) + bias[:, None, None]


def variants(name: str, quads: Dim, *, pooled: bool) -> tuple[Variant, ...]:
    """Return the variants of the kernel ``name``; an image has this many quads (see conv5x5/quad.cuh) per filter."""
    groups = ceil_div(k, FFMA_FILTERS)
    wgmma = (_wgmma(f"{name}_wgmma", quads),) if pooled else ()
    return (
        *wgmma,
        _mma("split", f"{name}_split", quads, pooled, 75, "fp32", "float accuracy from fp16 tensor cores", split=True),
        _mma("tensor_core", f"{name}_tensor", quads, pooled, 75, "fp16", "fp16 tensor cores"),
        _mma("tensor_core_bf16", f"{name}_tensor", quads, pooled, 80, "bf16", "bfloat16 tensor cores"),
        Variant(
            "ffma",
            Launch(
                grid=(minimum(ceil_div(n * quads, FFMA_THREADS), FFMA_BLOCKS * MULTIPROCESSORS) * groups, 1, 1),
                block=(FFMA_THREADS, 1, 1),
                extras=(n,),
            ),
            "plain multiply-adds",
            entry=name,
        ),
    )


def _wgmma(entry: str, quads: Dim) -> Variant:
    """Make the variant with wgmma. Source: ``WgmmaPlan`` in conv5x5/by_wgmma.cuh."""
    tiles = ceil_div(k, 8)
    pairs = ceil_div((WGMMA_IMAGES * h * _pooled_pitch() * 2 + 16) * 4, 16) * 16
    shared = tiles * 3072 + pairs + WGMMA_IMAGES * h * w * size_of("T")
    least, most = WGMMA_FILTERS
    return Variant(
        "wgmma",
        Launch(
            grid=(minimum(n, WGMMA_BLOCKS * MULTIPROCESSORS), 1, 1),
            block=(32 * WGMMA_WARPS, 1, 1),
            extras=(n,),
            shared_bytes=shared,
        ),
        "float accuracy from fp16 tensor cores, by wgmma",
        source="wgmma.cu",
        entry=entry,
        min_sm=90,
        only_sm=True,
        types=("fp32",),
        when=c.equals(1) & (k >= least) & (k <= most) & (shared <= WGMMA_SHARED_LIMIT),
        prefer=FILLS_TENSOR_CORES,
    )


def _pooled_pitch() -> Dim:
    return ceil_div(w + 4, 16) * 16 - 4


def _mma(
    name: str, entry: str, quads: Dim, pooled: bool, min_sm: int, types: str, note: str, split: bool = False
) -> Variant:
    units = ceil_div(quads, QUADS_PER_UNIT)
    images = maximum(1, MMA_WARPS // units)
    computed = ceil_div(images * units, MMA_WARPS) * (MMA_WARPS * QUADS_PER_UNIT) * ceil_div(k, 8) * 8
    empty = 1 - minimum((2 if split else 4) * images * quads * k // computed, 1)
    halves, blocks = (2, SPLIT_BLOCKS) if split else (1, TENSOR_CORE_BLOCKS_POOLED if pooled else TENSOR_CORE_BLOCKS)
    fragments = c * ceil_div(k, 8) * halves * 512
    pitch = _pooled_pitch() if pooled else ceil_div(w - 1, 4) * 4 + 1
    pairs = ceil_div((images * c * h * pitch * halves + 8 * halves) * 4, 16) * 16
    staged = ceil_div(images * c * h * w * size_of("T"), 16) * 16
    shared = fragments + pairs + staged
    return Variant(
        name,
        Launch(
            grid=(minimum(ceil_div(n, images), blocks * MULTIPROCESSORS), 1, 1),
            block=(32 * MMA_WARPS, 1, 1),
            extras=(n,),
            shared_bytes=shared,
        ),
        note,
        source="split.cu" if split else "tensor_core.cu",
        entry=entry,
        min_sm=min_sm,
        types=(types,),
        when=shared <= MMA_SHARED_LIMIT,
        prefer=_mma_prefer(empty, pooled, split),
    )


def _mma_prefer(empty: Dim, pooled: bool, split: bool) -> Condition:
    """Return where a variant on tensor cores is preferred; ``empty`` is 1 where too little of its products is used."""
    if split:
        few = empty * n <= minimum(c - 1, 1) * EMPTY_IMAGES * MULTIPROCESSORS
        return (c * k >= SPLIT_LEAST_WORK) & FILLS_TENSOR_CORES & few
    few = empty * n <= EMPTY_IMAGES * MULTIPROCESSORS
    return few if pooled else FILLS_TENSOR_CORES & few
