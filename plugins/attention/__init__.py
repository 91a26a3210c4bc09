"""Declare ``attention``: the softmax of the products of queries and keys, times values."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import INT32_MAX, Axis, Kernel

from .declaration import (
    AXES,
    MOST_DEPTH,
    REQUIRES,
    SCALE,
    TYPES,
    attended,
    claims,
    d,
    flops,
    h,
    m,
    t,
    tensors,
    variants,
)
from .pattern import PATTERNS

(n,) = axes("n")
INPUTS, OUTPUTS = tensors(n)
FLOPS = flops(n)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, scale: float) -> np.ndarray:
    """Compute the attention."""
    return attended(q, k, v, scale)


KERNEL = Kernel(
    name="attention",
    doc="y = Softmax(scale q k^T) v for each head",
    axes=(Axis("n", "images or sequences"), *AXES),
    inputs=INPUTS,
    outputs=OUTPUTS,
    types=TYPES,
    attributes=(SCALE,),
    requires=REQUIRES & (d <= MOST_DEPTH) & (n * h * m <= INT32_MAX),
    variants=variants("attention", n, m, (m, t, h), keys=t),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=(
        {"n": 1, "m": 1, "t": 1, "h": 1, "d": 16},
        {"n": 2, "m": 17, "t": 70, "h": 3, "d": 32},
        {"n": 3, "m": 130, "t": 49, "h": 1, "d": 48, "scale": 0.25},
        {"n": 1, "m": 5, "t": 200, "h": 2, "d": 20},
        {"n": 2, "m": 197, "t": 197, "h": 3, "d": 64},
        {"n": 1, "m": 512, "t": 300, "h": 2, "d": 128},
        # Parts for every multiprocessor; and few, but long sequences.
        {"n": 33, "m": 162, "t": 50, "h": 4, "d": 32},
        {"n": 1, "m": 600, "t": 70, "h": 2, "d": 64},
        # Heads of all widths by wgmma, and blocks of 192 queries.
        {"n": 2, "m": 523, "t": 77, "h": 3, "d": 40},
        {"n": 3, "m": 523, "t": 300, "h": 2, "d": 72},
        {"n": 21, "m": 570, "t": 130, "h": 7, "d": 128},
    ),
    claims=claims(FLOPS, masked=False),
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
