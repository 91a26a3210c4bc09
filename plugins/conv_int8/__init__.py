"""Declare ``conv_int8``: a convolution of few channels between Q/DQ, on integers, with its ReLU and pool."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, maximum, minimum
from lenet_trt.kernel import MAX_GRID_Y, Attribute, Axis, Kernel, Launch, Tensor, Types, Variant
from lenet_trt.kernel.saturate import scaled

from ..windows.declaration import PAD, STRIDE, THREADS_AT_ONCE, h, n, pad, size, stride, w, windows_of
from .pattern import PATTERNS

c, k, pool = axes("c k pool")
THREADS = 128
FILTERS = 8  # of a block
HELD_STEPS = 10  # up to here the weights' operand stays in registers
# Blocks of a multiprocessor, measured on an H200: with the operand in registers, and in shared memory.
BLOCKS_HELD, BLOCKS = 4, 16
SHARED_LIMIT = 48 * 1024
# A thread computes an output of so few products before a tile is in shared memory.
FEW_PRODUCTS = 80
# Scales with which sums of random integers fill the range of y, and some of it is cut.
X_STEP, WEIGHT_STEP, Y_STEP = (0.05, 0.1), (0.001, 0.004), (0.05, 0.1)


def reference(
    x: np.ndarray,
    x_scale: np.ndarray,
    weights: np.ndarray,
    w_scale: np.ndarray,
    bias: np.ndarray,
    y_scale: np.ndarray,
    *,
    relu: int,
    pool: int,
    size: int,
    stride: int,
    pad: int,
) -> np.ndarray:
    """Sum as integers, take the largest of a pool, multiply and add with one rounding, round half to even and cut."""
    windows = windows_of(x.astype(np.float64), size, stride, pad, 0.0)
    sums = np.einsum("nchwij,kcij->nkhw", windows, weights.astype(np.float64), optimize=True)
    if pool == 2:
        sums = windows_of(sums, 2, 2, 0, 0.0).max(axis=(-2, -1))
    step = y_scale.astype(np.float32)
    factor = x_scale.astype(np.float32) * w_scale.astype(np.float32) / step
    addend = bias.astype(np.float32) / step
    y = scaled(sums, factor[:, None, None], addend[:, None, None])
    return np.clip(np.rint(y), 0 if relu else -128, 127).astype(np.int8)


out_h, out_w = (((extent + 2 * pad - size) // stride + 1) // pool for extent in (h, w))
# Source: the numbers follow tensor_core.cu.
quads = ceil_div(out_w, 4 // pool)
items = out_h * quads
words = (3 * stride + size + 3) // 4
steps = ceil_div(c * size * words, 8)
tile = c * ((out_h * pool - 1) * stride + size) * ((quads - 1) * stride + words)
images = minimum(maximum(64 // items, 1), 8)
shared = 4 * maximum(images * tile, ceil_div(FILTERS * c * size * size, 4) + 1)
in_shared = minimum(maximum(steps - HELD_STEPS, 0), 1)  # 1 where the operand lies there
shared = shared + 16 + in_shared * steps * 1024
blocks = BLOCKS_HELD + (BLOCKS - BLOCKS_HELD) * in_shared
products = c * size * size * pool * pool
outputs = n * k * out_h * out_w

KERNEL = Kernel(
    name="conv_int8",
    doc="y = Q(pool(act(Conv(DQ(x), DQ(w), bias)))), 3x3 or 5x5 filters, few channels, in integers",
    axes=(
        Axis("n", "images"),
        Axis("h", "height of an image", static=True),
        Axis("w", "width of an image", static=True),
        Axis("c", "channels of an image", static=True),
        Axis("k", "filters", static=True),
    ),
    inputs=(
        Tensor("x", (n, c, h, w), "int8", "images"),
        Tensor("x_scale", (), "float32", "of x", weight=True, positive=X_STEP),
        Tensor("w", (k, c, size, size), "int8", "filters", weight=True),
        Tensor("w_scale", (k,), "float32", "of each filter", weight=True, positive=WEIGHT_STEP),
        Tensor("bias", (k,), "float32", "bias of each filter", weight=True),
        Tensor("y_scale", (), "float32", "of y", weight=True, positive=Y_STEP),
    ),
    outputs=(Tensor("y", (n, k, out_h, out_w), "int8", "feature maps"),),
    types=(Types("int8", {}, tolerance=0.0),),
    attributes=(
        Attribute("relu", (1, 0), "whether ReLU follows"),
        Attribute("pool", (1, 2), "rows and columns of the max pool that follows; 1: none"),
        Attribute("size", (5, 3), "rows and columns of a filter"),
        STRIDE,
        PAD,
    ),
    requires=(h + 2 * pad >= size + (pool - 1) * stride) & (w + 2 * pad >= size + (pool - 1) * stride) & (c <= 64),
    variants=(
        Variant(
            "tensor_core",
            Launch(
                (minimum(ceil_div(n, images), blocks * MULTIPROCESSORS), ceil_div(k, FILTERS), 1),
                (THREADS, 1, 1),
                extras=(n,),
            ),
            "on tensor cores, 8 filters a block",
            source="tensor_core.cu",
            when=(shared <= SHARED_LIMIT) & (k <= MAX_GRID_Y * FILTERS),
            # Unless the outputs have few products, and the GPU has a thread for each.
            prefer=maximum(products // (FEW_PRODUCTS + 1), outputs // THREADS_AT_ONCE) >= 1,
        ),
        Variant(
            "any_size",
            Launch((ceil_div(n * k * out_h * out_w, THREADS), 1, 1), (THREADS, 1, 1), extras=(n,)),
            "a thread an output",
        ),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "h": 28, "w": 28, "c": 1, "k": 6, "size": 5, "stride": 1, "pad": 0},
        {"n": 19, "h": 12, "w": 12, "c": 6, "k": 16, "size": 5, "stride": 1, "pad": 0},
        {"n": 3, "h": 9, "w": 7, "c": 3, "k": 11, "size": 3, "stride": 2, "pad": 1},
        {"n": 7, "h": 12, "w": 12, "c": 20, "k": 50, "size": 5, "stride": 1, "pad": 0},
        {"n": 2, "h": 32, "w": 30, "c": 3, "k": 9, "size": 5, "stride": 1, "pad": 2},
        {"n": 133, "h": 14, "w": 20, "c": 8, "k": 8, "size": 3, "stride": 2, "pad": 3},
        {"n": 2, "h": 40, "w": 40, "c": 24, "k": 4, "size": 3, "stride": 1, "pad": 1},
    ),
    flops=2 * n * k * out_h * out_w * pool * pool * c * size * size,
    source_dir=Path(__file__).parent,
    # The convolutions of LeNet-5 with their pools, where an engine with it was faster (docs/kernels/conv_int8.md).
    claims=(
        size.equals(5)
        & stride.equals(1)
        & pad.equals(0)
        & pool.equals(2)
        & (c <= 6)
        & (k <= 16)
        & (h <= 28)
        & (w <= 28),
    ),
)
