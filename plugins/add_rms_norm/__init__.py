"""Declare ``add_rms_norm``: a residual connection and the RMSNormalization of the sum, over the last axis."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import INT32_MAX, BesidePlugins, Kernel, Tensor, float_types

from ..layer_norm.declaration import AXES, EXAMPLES, LONG_ROWS, k, rows, variants
from ..rms_norm.declaration import EPSILON, SCALE, normalized
from ..windows.declaration import IN_FLOATS, rows_in_groups
from .pattern import PATTERNS


def reference(x: np.ndarray, other: np.ndarray, scale: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute the normalised sum, and the sum."""
    return normalized(x + other, scale, epsilon), x + other


KERNEL = Kernel(
    name="add_rms_norm",
    doc="sum = x + other; y = RMSNormalization(sum, scale) over the last axis",
    axes=AXES,
    inputs=(Tensor("x", (rows, k), "T", "rows"), Tensor("other", (rows, k), "T", "rows that are added"), SCALE),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"), Tensor("sum", (rows, k), "T", "sums")),
    types=float_types(),
    attributes=(EPSILON,),
    variants=variants("add_rms_norm", tensors=2),
    patterns=PATTERNS,
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
    in_groups=rows_in_groups(rows, k),
    reference=reference,
    max_elements=2**40,
    requires=rows <= INT32_MAX,
    examples=EXAMPLES,
    flops=6 * rows * k,
    source_dir=Path(__file__).parent,
)
