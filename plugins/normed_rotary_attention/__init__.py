"""Declare ``normed_rotary_attention``: rotary attention whose queries and keys are normalised before, as in Qwen3."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Tensor

from ..attention.declaration import d
from ..rms_norm.declaration import EPSILON, normalized
from ..rotary_attention.declaration import (
    ATTRIBUTES,
    INPUTS,
    REQUIRES,
    attended_after,
    example,
    rotary,
    rotated,
    variants,
)
from .pattern import PATTERNS


def reference(
    x: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    mask: np.ndarray,
    query_scale: np.ndarray,
    key_scale: np.ndarray,
    *,
    scale: float,
    repeats: int,
    epsilon: float,
) -> np.ndarray:
    """Compute the attention of queries and keys over their root mean square, scaled and then turned."""
    scales = {"queries": query_scale, "keys": key_scale}

    def changed(rows: np.ndarray, which: str) -> np.ndarray:
        return rotated(normalized(rows, scales[which], epsilon), cos, sin)

    return attended_after(changed, x, mask, scale, repeats)


KERNEL = rotary(
    name="normed_rotary_attention",
    doc="y = Softmax(scale q k^T + mask) v of RMS norms of q and k, turned by rotary positions; heads share k and v",
    inputs=(
        *INPUTS,
        Tensor("query_scale", (d,), "T", "factors of the elements of a query, behind its norm", weight=True),
        Tensor("key_scale", (d,), "T", "factors of the elements of a key, behind its norm", weight=True),
    ),
    attributes=(*ATTRIBUTES, EPSILON),
    # The threads of a row add its squares by halves.
    requires=REQUIRES & ((d - 16) * (d - 32) * (d - 64) * (d - 128)).equals(0),
    variants=variants("normed_rotary_attention"),
    patterns=PATTERNS,
    reference=reference,
    # Normalised rows have products of about d: unscaled, shares become 0 in fp16, and 0 times an infinite value is NaN.
    examples=(
        example(1, 1, 1, 1, 16, 1),
        example(2, 1, 70, 2, 32, 3, "q", scale=0.03125),
        example(1, 2, 131, 3, 64, 1, "hq", scale=0.015625),
        example(2, 3, 33, 1, 128, 8, "q", scale=0.0078125),
        example(2, 1, 128, 4, 128, 2, "q", scale=0.0078125),
        # Blocks for every multiprocessor; and few, but long sequences.
        example(3, 11, 162, 2, 64, 4, epsilon=1e-5, scale=0.015625),
        example(1, 1, 600, 1, 64, 7, "hq", scale=0.015625),
    ),
    source_dir=Path(__file__).parent,
)
