"""Declare ``scale_add_softmax``: Softmax of scaled scores to which a mask is added, as in attention."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, axes, maximum, minimum, product, remainder, size_of
from lenet_trt.kernel import INT32_MAX, Axis, FloatAttribute, Kernel, Tensor, float_types

from ..softmax.declaration import RowVariants, k, softmax_of
from .pattern import PATTERNS

outer, repeat, inner = axes("outer repeat inner")
rows = product((outer, repeat, inner))


def reference(x: np.ndarray, mask: np.ndarray, scale: float) -> np.ndarray:
    """Compute exp(x * scale + mask) over its sum in each row."""
    return softmax_of(x * scale + mask)


row_bytes = k * size_of("T")
# Up to here, all blocks of 256 threads run at once, and all of 1024.
FEW_ROWS, FEWEST_ROWS = 8 * MULTIPROCESSORS, 2 * MULTIPROCESSORS
# With 16 lanes, a lane has up to two packs of x and two of the mask. Rows of single elements take more loads, so 32
# lanes, unless these would have two elements or fewer each: then a warp does little but exchange maxima and sums.
packed = 1 - minimum(remainder(k, 4), 1)
takes_16_lanes = maximum((513 - row_bytes) * packed, 65 - k) > 0
VARIANTS = RowVariants("scale_add_softmax", rows, (rows, repeat, inner))

KERNEL = Kernel(
    name="scale_add_softmax",
    doc="y = Softmax(x * scale + mask) over the last axis, the mask repeated",
    axes=(
        Axis("outer", "leading dimensions that x and mask share"),
        Axis("repeat", "dimensions over which the mask is repeated"),
        Axis("inner", "dimensions after those, that x and mask share"),
        Axis("k", "length of a row", static=True),
    ),
    inputs=(
        Tensor("x", (outer, repeat, inner, k), "T", "scores"),
        Tensor("mask", (outer, 1, inner, k), "T", "what is added to them"),
    ),
    outputs=(Tensor("y", (outer, repeat, inner, k), "T", "exponentials that add up to 1 in each row"),),
    types=float_types(),
    attributes=(FloatAttribute("scale", (0.125,), "multiplies the scores"),),
    variants=(
        VARIANTS.lanes(16, prefer=takes_16_lanes),
        VARIANTS.lanes(32, prefer=row_bytes <= 2048),
        # While rows are few, a thread has up to two packs of x and two of the mask too.
        VARIANTS.row(128, prefer=(k <= 2048) & (maximum(2049 - row_bytes, rows - FEW_ROWS) > 0)),
        VARIANTS.row(256, prefer=maximum(8193 - row_bytes, rows - FEWEST_ROWS) > 0),
        VARIANTS.row(1024),
        VARIANTS.block(),
    ),
    patterns=PATTERNS,
    by_name=True,
    reference=reference,
    max_elements=2**40,
    requires=(rows <= INT32_MAX // 8) & (repeat * inner <= INT32_MAX),
    examples=(
        {"outer": 1, "repeat": 1, "inner": 1, "k": 1},
        {"outer": 3, "repeat": 5, "inner": 7, "k": 7},
        {"outer": 3, "repeat": 5, "inner": 7, "k": 7, "scale": 1.0},
        {"outer": 1, "repeat": 6, "inner": 49, "k": 49},
        {"outer": 3, "repeat": 100, "inner": 1, "k": 196},
        {"outer": 1, "repeat": 33, "inner": 5, "k": 1000},
        {"outer": 3, "repeat": 2, "inner": 5, "k": 1030},
        {"outer": 1, "repeat": 2, "inner": 5, "k": 4099},
        {"outer": 1, "repeat": 3, "inner": 1, "k": 10007},
        {"outer": 1, "repeat": 2, "inner": 1, "k": 50257},
    ),
    flops=7 * rows * k,
    source_dir=Path(__file__).parent,
)
