"""Declare what ``patch_embedding`` and ``patch_embedding_half`` share: patches of images times filters."""

from typing import Any

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import Axis, IntegerAttribute, Tensor

from ..linear.declaration import Product
from ..windows.declaration import IMAGE, c, h, n, size, w

(k,) = axes("k")
RUN = 4  # what sizes.cuh says
PATCHES = n * (h // size) * (w // size)
LAYER = Product(PATCHES, c * size * size, k, extras=(PATCHES,))
AXES = (Axis("n", "images"), Axis("c", "channels", static=True), *IMAGE, Axis("k", "outputs", static=True))
SIZE = IntegerAttribute("size", RUN, 32, (16, 4, 8), "rows and columns of a patch")
REQUIRES = LAYER.requires & size.multiple_of(RUN) & h.multiple_of(size) & w.multiple_of(size)
X = Tensor("x", (n, c, h, w), "T", "images")
W = Tensor("w", (k, c, size, size), "T", "filters", weight=True)
BIAS = Tensor("bias", (k,), "T", "bias of each output", weight=True)
Y = Tensor("y", (n, h // size, w // size, k), "T", "outputs of each patch")
EXAMPLES = (
    {"n": 1, "c": 4, "h": 16, "w": 32, "k": 40, "size": 16},
    {"n": 1, "c": 3, "h": 224, "w": 224, "k": 192, "size": 16},
    {"n": 3, "c": 3, "h": 28, "w": 20, "k": 96, "size": 4},
    {"n": 7, "c": 3, "h": 40, "w": 56, "k": 136, "size": 8},
    {"n": 2, "c": 1, "h": 96, "w": 160, "k": 64, "size": 32},
    {"n": 5, "c": 5, "h": 60, "w": 36, "k": 72, "size": 12},
    {"n": 2, "c": 3, "h": 224, "w": 224, "k": 96, "size": 4},
    {"n": 32, "c": 3, "h": 224, "w": 224, "k": 192, "size": 16},
)


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, size: int) -> np.ndarray:
    """Cut the images into patches, and multiply each by the filters."""
    images, channels, height, width = x.shape
    patches = x.reshape(images, channels, height // size, size, width // size, size)
    return np.asarray(np.einsum("ncyixj,kcij->nyxk", patches, weights, optimize=True) + bias)


def filters_as_rows(filters: np.ndarray) -> np.ndarray:
    """Return the filters as the weights of a dense layer: [k, c * size * size]."""
    return filters.reshape(len(filters), -1)


def inputs_of_patch(op: Any, side: int) -> Any:
    """Write the nodes that give the number of inputs of a patch of the images x."""
    return op.Mul(op.Slice(op.Shape("x"), op.ints(1), op.ints(2)), op.ints(side * side))


def rows_as_filters(op: Any, rows: str, side: int) -> Any:
    """Write the node that makes filters of the weights of a dense layer."""
    return op.Reshape(rows, op.ints(0, -1, side, side))
