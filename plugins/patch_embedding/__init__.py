"""Declare ``patch_embedding``: a convolution whose filters are as large as its stride, with channels last, in fp32.

Vision transformers and networks like them begin with it: it is a product of patches and filters.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import Axis, IntegerAttribute, Kernel, Packing, Tensor, Types

from ..linear.declaration import HOPPER, Product
from ..linear.split_weights import pack_split, split_rows, split_weights
from ..windows.declaration import IMAGE, c, h, n, size, w
from .pattern import PATTERNS

(k,) = axes("k")
RUN = 4  # what sizes.cuh says
PATCHES = n * (h // size) * (w // size)
LAYER = Product(PATCHES, c * size * size, k, extras=(PATCHES,))
# Operations, two for each number of a patch and each output.
ENOUGH = 10_000_000

BIAS = Tensor("bias", (k,), "T", "bias of each output", weight=True)


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, size: int) -> np.ndarray:
    """Cut the images into patches, and multiply each by the filters."""
    images, channels, height, width = x.shape
    patches = x.reshape(images, channels, height // size, size, width // size, size)
    return np.asarray(np.einsum("ncyixj,kcij->nyxk", patches, weights, optimize=True) + bias)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pack the filters as the weights of a dense layer."""
    return pack_split(weights["w"].reshape(len(weights["w"]), -1), weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    side = shapes["w"][-1]
    inputs = op.Mul(op.Slice(op.Shape("x"), op.ints(1), op.ints(2)), op.ints(side * side))
    return {"w": op.Reshape(split_rows(op, weights, inputs), op.ints(0, -1, side, side)), "bias": weights["bias"]}


KERNEL = Kernel(
    name="patch_embedding",
    doc="y = Transpose(Conv(x, w, bias)), channels last, filters as large as their stride, no padding, in fp32",
    axes=(Axis("n", "images"), Axis("c", "channels", static=True), *IMAGE, Axis("k", "outputs", static=True)),
    inputs=(Tensor("x", (n, c, h, w), "T", "images"), *split_weights(LAYER, BIAS)),
    outputs=(Tensor("y", (n, h // size, w // size, k), "T", "outputs of each patch"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=(IntegerAttribute("size", RUN, 32, (16, 4, 8), "rows and columns of a patch"),),
    requires=LAYER.requires & size.multiple_of(RUN) & h.multiple_of(size) & w.multiple_of(size),
    packing=Packing((Tensor("w", (k, c, size, size), "T", "filters", weight=True), BIAS), pack, unpack),
    variants=(
        *LAYER.narrow(element_bytes=4),
        LAYER.direct("patch_embedding_direct"),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 4, "h": 16, "w": 32, "k": 40, "size": 16},
        {"n": 1, "c": 3, "h": 224, "w": 224, "k": 192, "size": 16},
        {"n": 3, "c": 3, "h": 28, "w": 20, "k": 96, "size": 4},
        {"n": 7, "c": 3, "h": 40, "w": 56, "k": 136, "size": 8},
        {"n": 2, "c": 1, "h": 96, "w": 160, "k": 64, "size": 32},
        {"n": 5, "c": 5, "h": 60, "w": 36, "k": 72, "size": 12},
        {"n": 2, "c": 3, "h": 224, "w": 224, "k": 96, "size": 4},
        {"n": 32, "c": 3, "h": 224, "w": 224, "k": 192, "size": 16},
    ),
    claims=(HOPPER & (LAYER.flops >= ENOUGH),),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
