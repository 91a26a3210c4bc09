"""Declare ``lenet5``: all of LeNet-5 in one launch."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, minimum
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE, flops_per_image, parameter_shapes
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant

from ..conv5x5.declaration import convolve
from ..maxpool2 import reference as pool
from .pattern import PATTERNS

(n,) = axes("n")
THREADS = (384, 1, 1)
# Up to these numbers of images the variants without tensor cores were faster on an H200 (docs/results), which has 132
# multiprocessors: 132 images and 512.
MAX_IMAGES_BY_BLOCK = MULTIPROCESSORS
MAX_IMAGES_WITHOUT_SPLIT = 388 * MULTIPROCESSORS // 100
# The parts of the tensor-core variants' shared memory in bytes; the sources have the layout and assert the sum.
UNIT = 16  # a row of ldmatrix
FRAGMENTS = 17 * 32 * UNIT  # the weights of both convolutions, 17 units per lane
BIASES = 6 + 16 + 120 + 84 + 10
BIAS1_COPIES = 6 * UNIT
BARRIER = 8  # per warp
WINDOWS, MAP = 180 * UNIT, 146 * UNIT  # per warp: conv1's windows of its image, conv2's map
FEATURES = 33 * UNIT  # per image that waits for the linear layers
SPLIT = "float accuracy from fp16 tensor cores, for many images"
TENSOR_CORES = "fp16 tensor cores, for many images"

WEIGHTS = {name.replace(".", "_"): shape for name, shape in parameter_shapes().items()}


def reference(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    """Compute the network, layer by layer."""
    conv1, bias1, conv2, bias2, fc1, fc1_bias, fc2, fc2_bias, fc3, fc3_bias = weights
    for filters, bias in ((conv1, bias1), (conv2, bias2)):
        x = pool(np.maximum(convolve(x, filters, bias), 0))
    x = x.reshape(len(x), fc1.shape[1])
    for matrix, bias in ((fc1, fc1_bias), (fc2, fc2_bias)):
        x = np.maximum(x @ matrix.T + bias, 0)
    return x @ fc3.T + fc3_bias


def cluster(blocks: int, room_percent: int) -> Variant:
    """Make the variant with a cluster of ``blocks`` blocks per image, preferred while all find room on the GPU at once.

    ``room_percent``: the share of the multiprocessors on which clusters of this size found room on an H200.
    """
    return Variant(
        f"cluster{blocks}",
        Launch((blocks * n, 1, 1), (512, 1, 1), extras=(n,)),
        f"a cluster of {blocks} blocks an image, for few images",
        source="cluster.cu",
        min_sm=90,
        prefer=n <= room_percent * MULTIPROCESSORS // (100 * blocks),
        stores_once=True,
    )


def half_bytes(warps: int, waiting: int, pixel_bytes: int) -> int:
    """Return the shared memory of a block of tensor_core.cu with this many warps, while ``waiting`` images wait."""
    linear = 2 * (120 * 84 + 84 * 10 + BIASES)
    image = max(784 * pixel_bytes, WINDOWS)
    hidden = 2 * waiting * (128 + 8 + 96 + 8)  # uses the memory of the maps
    fixed = align(FRAGMENTS + linear, UNIT) + BIAS1_COPIES
    return fixed + warps * (BARRIER + image) + waiting * FEATURES + max(hidden, warps * MAP)


def split_bytes(warps: int, waiting: int) -> int:
    """Return the same for split.cu, which stores windows, maps, features and conv weights twice, high and low."""
    scales = 4 * (BIASES + 6) + waiting * (4 + 1 + 1) + 6 + 16
    limits = 16
    fixed = align(2 * FRAGMENTS + scales, UNIT) + limits + BIAS1_COPIES
    return fixed + warps * (BARRIER + 2 * WINDOWS + 2 * MAP) + 2 * waiting * FEATURES


def align(size: int, unit: int) -> int:
    """Round up to the next multiple of ``unit``."""
    return -(-size // unit) * unit


def persistent(
    name: str, types: str, warps: int, blocks: int, images: int, shared_bytes: int, min_sm: int, note: str
) -> Variant:
    """Make a tensor-core variant with ``blocks`` blocks per multiprocessor; each block computes a share of the images.

    ``images`` is the least share that keeps a block busy. Variants of more than 99 KB of shared memory stand before the
    others: they are taken where the GPU has as much.
    """
    stem = name.removesuffix("_io_fp32")
    return Variant(
        name,
        Launch(
            (minimum(ceil_div(n, images), blocks * MULTIPROCESSORS), 1, 1),
            (32 * warps, 1, 1),
            extras=(n,),
            shared_bytes=shared_bytes,
        ),
        note,
        source=f"{stem}.cu",
        entry=f"lenet5_{stem}",
        min_sm=min_sm,
        types=(types,),
        prefer=n > (MAX_IMAGES_WITHOUT_SPLIT if types == "fp32" else MAX_IMAGES_BY_BLOCK),
    )


KERNEL = Kernel(
    name="lenet5",
    doc="LeNet-5: two of Conv, Relu, MaxPool, then three Gemm with Relu between",
    axes=(Axis("n", "images"),),
    inputs=(
        Tensor("x", (n, *IMAGE_SHAPE), "TX", "images"),
        *(Tensor(name, shape, "T", "as torch stores it", weight=True) for name, shape in WEIGHTS.items()),
    ),
    outputs=(Tensor("y", (n, CLASSES), "TY", "logits"),),
    types=(
        Types("fp32", {"TX": "float32", "T": "float32", "TY": "float32"}, tolerance=5e-6),
        Types("fp16", {"TX": "float16", "T": "float16", "TY": "float16"}, tolerance=2e-3),
        Types("fp16_io_fp32", {"TX": "float32", "T": "float16", "TY": "float32"}, tolerance=2e-3),
    ),
    variants=(
        cluster(8, room_percent=73),
        cluster(4, room_percent=85),
        cluster(2, room_percent=100),
        persistent("split", "fp32", 16, 1, 8, split_bytes(16, 32), 90, SPLIT),
        persistent("split_99k", "fp32", 6, 1, 6, split_bytes(6, 16), 80, SPLIT),
        persistent("tensor_core", "fp16", 16, 1, 4, half_bytes(16, 80, 2), 80, TENSOR_CORES),
        persistent("tensor_core_io_fp32", "fp16_io_fp32", 16, 1, 4, half_bytes(16, 80, 4), 80, TENSOR_CORES),
        persistent("tensor_core_99k", "fp16", 8, 2, 8, half_bytes(8, 32, 2), 80, TENSOR_CORES),
        persistent("tensor_core_99k_io_fp32", "fp16_io_fp32", 8, 2, 8, half_bytes(8, 32, 4), 80, TENSOR_CORES),
        Variant(
            "portable",
            Launch((n, 1, 1), THREADS, extras=(n,)),
            "a block an image",
            source="portable.cu",
            prefer=n <= MAX_IMAGES_BY_BLOCK,
            stores_once=True,
        ),
        Variant(
            "portable2",
            Launch((ceil_div(n, 2), 1, 1), THREADS, extras=(n,)),
            "a block two images",
            source="portable.cu",
        ),
    ),
    resident=Variant(
        "resident",
        Launch((8, 1, 1), (512, 1, 1), extras=()),
        "stays on the GPU, and takes images one by one from the host's memory",
        source="resident.cu",
        min_sm=90,
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=({"n": 1}, {"n": 5}, {"n": 33}, {"n": 101}, {"n": 259}, {"n": 1024}, {"n": 4099}),
    flops=flops_per_image() * n,
    source_dir=Path(__file__).parent,
)
