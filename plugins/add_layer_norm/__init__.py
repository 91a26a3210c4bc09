"""Declare ``add_layer_norm``: a residual connection and the LayerNormalization of the sum, over the last axis."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Tensor

from ..layer_norm.declaration import EPSILON, WEIGHTS, k, norm_of_rows, normalized, rows, variants
from .pattern import PATTERNS


def reference(
    x: np.ndarray, other: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the normalised sum, and the sum."""
    return normalized(x + other, scale, bias, epsilon), x + other


KERNEL = norm_of_rows(
    name="add_layer_norm",
    doc="sum = x + other; y = LayerNormalization(sum, scale, bias) over the last axis",
    inputs=(Tensor("x", (rows, k), "T", "rows"), Tensor("other", (rows, k), "T", "rows that are added"), *WEIGHTS),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"), Tensor("sum", (rows, k), "T", "sums")),
    attributes=(EPSILON,),
    variants=variants("add_layer_norm", tensors=2),
    patterns=PATTERNS,
    reference=reference,
    flops=9 * rows * k,
    source_dir=Path(__file__).parent,
)
