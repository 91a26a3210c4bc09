"""Declare ``max_pool``: the largest element of each window of 2x2 to 5x5."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, float_types

from ..windows.declaration import IN_FLOATS, IN_GROUPS, windows_of
from ..windows.pools import ATTRIBUTES, AXES, EXAMPLES, FLOPS, INPUTS, OUTPUTS, REQUIRES, VARIANTS
from .pattern import PATTERNS


def reference(x: np.ndarray, *, size: int, stride: int, pad: int) -> np.ndarray:
    """Compute the largest element of each window; NaN wins, padding never."""
    return np.asarray(windows_of(x, size, stride, pad, -np.inf).max(axis=(4, 5)))


KERNEL = Kernel(
    name="max_pool",
    doc="y = MaxPool(x), square windows of 2x2 to 5x5",
    axes=AXES,
    inputs=INPUTS,
    outputs=OUTPUTS,
    types=float_types(0.0, 0.0, 0.0),
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    claims=(IN_FLOATS,),
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
