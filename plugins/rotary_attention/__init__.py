"""Declare ``rotary_attention``: attention with rotary positions, and heads that share keys and values."""

from pathlib import Path

import numpy as np

from .declaration import ATTRIBUTES, INPUTS, REQUIRES, attended_after, example, rotary, rotated, variants
from .pattern import PATTERNS


def reference(
    x: np.ndarray, cos: np.ndarray, sin: np.ndarray, mask: np.ndarray, *, scale: float, repeats: int
) -> np.ndarray:
    """Compute the attention of turned queries and keys."""
    return attended_after(lambda rows, _: rotated(rows, cos, sin), x, mask, scale, repeats)


KERNEL = rotary(
    name="rotary_attention",
    doc="y = Softmax(scale q k^T + mask) v, where q and k are turned by rotary positions, and heads share k and v",
    inputs=INPUTS,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    variants=variants("rotary_attention"),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        example(1, 1, 1, 1, 16, 1),
        example(2, 1, 70, 2, 32, 3, "q"),
        example(1, 2, 131, 3, 48, 1, "hq", scale=0.0625),
        example(2, 3, 33, 1, 64, 8, "q"),
        example(2, 1, 128, 4, 64, 3, "q"),
        example(1, 1, 300, 2, 128, 4, "q"),
        # Blocks for every multiprocessor; and few, but long sequences.
        example(3, 11, 162, 2, 64, 4),
        example(1, 1, 600, 1, 64, 7, "hq"),
    ),
    source_dir=Path(__file__).parent,
)
