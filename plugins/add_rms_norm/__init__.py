"""Declare ``add_rms_norm``: a residual connection and the RMSNormalization of the sum, over the last axis."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Tensor

from ..layer_norm.declaration import k, norm_of_rows, rows, variants
from ..rms_norm.declaration import EPSILON, SCALE, normalized
from .pattern import PATTERNS


def reference(x: np.ndarray, other: np.ndarray, scale: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute the normalised sum, and the sum."""
    return normalized(x + other, scale, epsilon), x + other


KERNEL = norm_of_rows(
    name="add_rms_norm",
    doc="sum = x + other; y = RMSNormalization(sum, scale) over the last axis",
    inputs=(Tensor("x", (rows, k), "T", "rows"), Tensor("other", (rows, k), "T", "rows that are added"), SCALE),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"), Tensor("sum", (rows, k), "T", "sums")),
    attributes=(EPSILON,),
    variants=variants("add_rms_norm", tensors=2),
    patterns=PATTERNS,
    reference=reference,
    flops=6 * rows * k,
    source_dir=Path(__file__).parent,
)
