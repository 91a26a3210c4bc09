"""Declare ``layer_norm``: LayerNormalization over the last axis."""

from pathlib import Path

from lenet_trt.kernel import Tensor

from .declaration import EPSILON, WEIGHTS, k, norm_of_rows, normalized, rows, variants
from .pattern import PATTERNS

KERNEL = norm_of_rows(
    name="layer_norm",
    doc="y = LayerNormalization(x, scale, bias) over the last axis",
    inputs=(Tensor("x", (rows, k), "T", "rows"), *WEIGHTS),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"),),
    attributes=(EPSILON,),
    variants=variants("layer_norm"),
    patterns=PATTERNS,
    reference=normalized,
    flops=8 * rows * k,
    source_dir=Path(__file__).parent,
)
