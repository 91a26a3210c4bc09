"""Declare ``merge_layer_norm``: four pixels of an image as one, and the LayerNormalization of all their channels."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import INT32_MAX, Axis, BesidePlugins, Kernel, Tensor, float_types

from ..layer_norm.declaration import EPSILON, LONG_ROWS, WEIGHTS, k, normalized, variants
from ..windows.declaration import IN_FLOATS, h, n, rows_in_groups, w
from .pattern import PATTERNS

PIXELS = 4  # that are merged
rows = n * (h // 2) * (w // 2)


def reference(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    """Compute the norm of each pixel, the one below it, and the two to the right of these."""
    merged = np.concatenate([x[:, row::2, column::2] for column in range(2) for row in range(2)], axis=-1)
    return normalized(merged, scale, bias, epsilon)


KERNEL = Kernel(
    name="merge_layer_norm",
    doc="y = LayerNormalization of each 2x2 pixels of images with channels last, as one row of all their channels",
    axes=(
        Axis("n", "images"),
        Axis("k", "length of a row: four times the channels", static=True),
        Axis("h", "height of an image"),
        Axis("w", "width of an image"),
    ),
    inputs=(Tensor("x", (n, h, w, k // PIXELS), "T", "images"), *WEIGHTS),
    outputs=(Tensor("y", (n, h // 2, w // 2, k), "T", "normalised rows"),),
    types=float_types(),
    attributes=(EPSILON,),
    variants=variants("merge_layer_norm", rows=rows, more=(w // 2,)),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    requires=k.multiple_of(PIXELS) & h.multiple_of(2) & w.multiple_of(2) & (rows <= INT32_MAX),
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(sizes=IN_FLOATS),
    in_groups=rows_in_groups(rows, k),
    examples=(
        {"n": 1, "h": 2, "w": 2, "k": 4},
        {"n": 3, "h": 6, "w": 10, "k": 28},
        {"n": 5, "h": 14, "w": 18, "k": 96},
        {"n": 3, "h": 18, "w": 26, "k": 252, "epsilon": 1e-12},
        {"n": 1, "h": 28, "w": 30, "k": 768},
        {"n": 5, "h": 28, "w": 32, "k": 768},
        {"n": 3, "h": 6, "w": 6, "k": 1024},
        {"n": 3, "h": 6, "w": 6, "k": 1536},
        {"n": 1, "h": 6, "w": 6, "k": 4100},
        {"n": 1, "h": 2, "w": 14, "k": 10_000},
        {"n": 1, "h": 2, "w": 6, "k": 50_260},
    ),
    flops=8 * rows * k,
    source_dir=Path(__file__).parent,
)
