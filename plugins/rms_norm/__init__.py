"""Declare ``rms_norm``: RMSNormalization over the last axis."""

from pathlib import Path

from lenet_trt.kernel import Tensor

from ..layer_norm.declaration import k, norm_of_rows, rows, variants
from .declaration import EPSILON, SCALE, normalized
from .pattern import PATTERNS

KERNEL = norm_of_rows(
    name="rms_norm",
    doc="y = RMSNormalization(x, scale) over the last axis",
    inputs=(Tensor("x", (rows, k), "T", "rows"), SCALE),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"),),
    attributes=(EPSILON,),
    variants=variants("rms_norm"),
    patterns=PATTERNS,
    reference=normalized,
    flops=5 * rows * k,
    source_dir=Path(__file__).parent,
)
