"""Declare ``self_attention``: attention of queries, keys and values that are parts of one tensor, also in windows."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel

from ..attention.declaration import MOST_DEPTH, SCALE, TYPES, claims, d
from .declaration import (
    AXES,
    CLAIMS_OF_FLOATS,
    EXAMPLES,
    FLOPS,
    MANY_ROWS,
    REQUIRES,
    SHIFT,
    X,
    Y,
    attended_in_windows,
    variants,
)
from .pattern import PATTERNS


def reference(x: np.ndarray, *, scale: float, shift: int) -> np.ndarray:
    """Compute the attention."""
    return attended_in_windows(x, scale, shift)


KERNEL = Kernel(
    name="self_attention",
    doc="y = Softmax(scale q k^T) v for each head, q, k and v parts of x, in sequences or windows of images",
    axes=AXES,
    inputs=(X,),
    outputs=(Y,),
    types=TYPES,
    attributes=(SCALE, SHIFT),
    requires=REQUIRES & (d <= MOST_DEPTH),
    variants=variants("self_attention"),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=(
        *EXAMPLES,
        # Heads of any eights, by wgmma.
        {"n": 1, "a": 1, "r": 523, "b": 1, "c": 1, "h": 3, "d": 40},
        {"n": 2, "a": 1, "r": 391, "b": 1, "c": 1, "h": 3, "d": 160},
    ),
    claims=(CLAIMS_OF_FLOATS, *claims(FLOPS, masked=False)),
    in_groups=MANY_ROWS,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
