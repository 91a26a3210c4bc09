"""Declare ``rms_norm``: RMSNormalization over the last axis."""

from pathlib import Path

from lenet_trt.kernel import INT32_MAX, BesidePlugins, Kernel, Tensor, float_types

from ..layer_norm.declaration import AXES, EXAMPLES, LONG_ROWS, k, rows, variants
from ..windows.declaration import IN_FLOATS, rows_in_groups
from .declaration import EPSILON, SCALE, normalized
from .pattern import PATTERNS

KERNEL = Kernel(
    name="rms_norm",
    doc="y = RMSNormalization(x, scale) over the last axis",
    axes=AXES,
    inputs=(Tensor("x", (rows, k), "T", "rows"), SCALE),
    outputs=(Tensor("y", (rows, k), "T", "normalised rows"),),
    types=float_types(),
    attributes=(EPSILON,),
    variants=variants("rms_norm"),
    patterns=PATTERNS,
    reference=normalized,
    max_elements=2**40,
    requires=rows <= INT32_MAX,
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
    in_groups=rows_in_groups(rows, k),
    examples=EXAMPLES,
    flops=5 * rows * k,
    source_dir=Path(__file__).parent,
)
