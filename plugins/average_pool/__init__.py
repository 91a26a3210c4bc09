"""Declare ``average_pool``: the mean of each window of 2x2 to 5x5."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Attribute, Kernel, float_types

from ..windows.declaration import IN_FLOATS, windows_of
from ..windows.pools import ATTRIBUTES, AXES, EXAMPLES, FLOPS, INPUTS, OUTPUTS, REQUIRES, VARIANTS
from .pattern import PATTERNS


def reference(x: np.ndarray, *, size: int, stride: int, pad: int, count_include_pad: int) -> np.ndarray:
    """Compute the mean of each window, over all elements or over those that are not padding."""
    sums = windows_of(x, size, stride, pad, 0.0).sum(axis=(4, 5))
    counted = windows_of(np.ones_like(x), size, stride, pad, float(count_include_pad)).sum(axis=(4, 5))
    return np.asarray(sums / counted)


KERNEL = Kernel(
    name="average_pool",
    doc="y = AveragePool(x), square windows of 2x2 to 5x5",
    axes=AXES,
    inputs=INPUTS,
    outputs=OUTPUTS,
    types=float_types(),
    attributes=(*ATTRIBUTES, Attribute("count_include_pad", (0, 1), "whether padding counts as zeros")),
    requires=REQUIRES,
    claims=(IN_FLOATS,),
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
