"""All of LeNet-5 in one launch: the declaration of ``lenet5``."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, ceil_div, minimum
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant

from ..conv5x5 import convolve
from ..maxpool2 import reference as pool
from .pattern import PATTERNS

(n,) = axes("n")
THREADS = (384, 1, 1)
# The variants without tensor cores were the faster ones on an H200 up to these numbers of images (docs/results).
MAX_IMAGES_BY_CLUSTER = 66
MAX_IMAGES_BY_BLOCK = 132
MAX_IMAGES_WITHOUT_SPLIT = 512
SPLIT = "float accuracy from fp16 tensor cores, for many images"
TENSOR_CORES = "fp16 tensor cores, for many images"

WEIGHTS = {
    "conv1_weight": (6, 1, 5, 5),
    "conv1_bias": (6,),
    "conv2_weight": (16, 6, 5, 5),
    "conv2_bias": (16,),
    "fc1_weight": (120, 256),
    "fc1_bias": (120,),
    "fc2_weight": (84, 120),
    "fc2_bias": (84,),
    "fc3_weight": (10, 84),
    "fc3_bias": (10,),
}
FLOPS_PER_IMAGE = 563_280


def reference(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    """The network, layer by layer."""
    conv1, bias1, conv2, bias2, fc1, fc1_bias, fc2, fc2_bias, fc3, fc3_bias = weights
    for filters, bias in ((conv1, bias1), (conv2, bias2)):
        x = pool(np.maximum(convolve(x, filters, bias), 0))
    x = x.reshape(len(x), fc1.shape[1])
    for matrix, bias in ((fc1, fc1_bias), (fc2, fc2_bias)):
        x = np.maximum(x @ matrix.T + bias, 0)
    return x @ fc3.T + fc3_bias


def cluster(blocks: int, max_images: int) -> Variant:
    """The variant with a cluster of ``blocks`` blocks an image, preferred while all find room on an H200 at once."""
    return Variant(
        f"cluster{blocks}",
        Launch((blocks * n, 1, 1), (512, 1, 1), extras=(n,)),
        f"a cluster of {blocks} blocks an image, for few images",
        source="cluster.cu",
        min_sm=90,
        prefer=n <= max_images,
    )


def persistent(
    name: str, types: str, threads: int, blocks: int, images: int, shared_bytes: int, min_sm: int, note: str
) -> Variant:
    """A tensor-core variant whose blocks, so many a multiprocessor, take a share of the images each.

    ``images`` is the least share that keeps a block busy, ``shared_bytes`` is kSharedBytes of the source. Those of
    more than 99 KB stand before the others: they are taken where the GPU has as much.
    """
    stem = name.removesuffix("_io_fp32")
    return Variant(
        name,
        Launch(
            (minimum(ceil_div(n, images), blocks * MULTIPROCESSORS), 1, 1),
            (threads, 1, 1),
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
        Tensor("x", (n, 1, 28, 28), "TX", "images"),
        *(Tensor(name, shape, "T", "as torch stores it", weight=True) for name, shape in WEIGHTS.items()),
    ),
    outputs=(Tensor("y", (n, 10), "TY", "logits"),),
    types=(
        Types("fp32", {"TX": "float32", "T": "float32", "TY": "float32"}, tolerance=5e-6),
        Types("fp16", {"TX": "float16", "T": "float16", "TY": "float16"}, tolerance=2e-3),
        Types("fp16_io_fp32", {"TX": "float32", "T": "float16", "TY": "float32"}, tolerance=2e-3),
    ),
    variants=(
        cluster(8, max_images=12),
        cluster(4, max_images=28),
        cluster(2, max_images=MAX_IMAGES_BY_CLUSTER),
        persistent("split", "fp32", 512, 1, 8, 219_536, 90, SPLIT),
        persistent("split_99k", "fp32", 192, 1, 6, 98_144, 80, SPLIT),
        persistent("tensor_core", "fp16", 512, 1, 4, 157_968, 80, TENSOR_CORES),
        persistent("tensor_core_io_fp32", "fp16_io_fp32", 512, 1, 4, 162_064, 80, TENSOR_CORES),
        persistent("tensor_core_99k", "fp16", 256, 2, 8, 89_808, 80, TENSOR_CORES),
        persistent("tensor_core_99k_io_fp32", "fp16_io_fp32", 256, 2, 8, 91_856, 80, TENSOR_CORES),
        Variant(
            "portable",
            Launch((n, 1, 1), THREADS, extras=(n,)),
            "a block an image",
            source="portable.cu",
            prefer=n <= MAX_IMAGES_BY_BLOCK,
        ),
        Variant(
            "portable2",
            Launch((ceil_div(n, 2), 1, 1), THREADS, extras=(n,)),
            "a block two images",
            source="portable.cu",
        ),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=({"n": 1}, {"n": 5}, {"n": 33}, {"n": 101}, {"n": 259}, {"n": 1024}, {"n": 4099}),
    flops=FLOPS_PER_IMAGE * n,
    source_dir=Path(__file__).parent,
)
