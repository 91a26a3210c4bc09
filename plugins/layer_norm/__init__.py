"""Declare ``layer_norm``: LayerNormalization over the last axis."""

from pathlib import Path

from lenet_trt.kernel import INT32_MAX, BesidePlugins, Kernel, Tensor, float_types

from ..windows.declaration import IN_FLOATS, rows_in_groups
from .declaration import AXES, EPSILON, EXAMPLES, LONG_ROWS, WEIGHTS, k, normalized, rows, variants
from .pattern import PATTERNS

KERNEL = Kernel(
    name="layer_norm",
    doc="y = LayerNormalization(x, scale, bias) over the last axis",
    axes=AXES,
    inputs=(Tensor("x", (rows, k), "T", "rows"), *WEIGHTS),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"),),
    types=float_types(),
    attributes=(EPSILON,),
    variants=variants("layer_norm"),
    patterns=PATTERNS,
    reference=normalized,
    max_elements=2**40,
    requires=rows <= INT32_MAX,
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
    in_groups=rows_in_groups(rows, k),
    examples=EXAMPLES,
    flops=8 * rows * k,
    source_dir=Path(__file__).parent,
)
