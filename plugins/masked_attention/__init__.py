"""Declare ``masked_attention``: attention with a mask, or a bias, that is added to the scores."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes, product
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Tensor

from ..attention.declaration import (
    AXES,
    MOST_DEPTH_MASKED,
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

outer, repeat, inner, mask_heads, mask_rows = axes("outer repeat inner mask_heads mask_rows")
IMAGES = (outer, repeat, inner)
INPUTS, OUTPUTS = tensors(*IMAGES)
n = product(IMAGES)
FLOPS = flops(*IMAGES)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray, *, scale: float) -> np.ndarray:
    """Compute the attention; a row whose keys the mask hides all, by -infinity, is of zeros."""
    return attended(q, k, v, scale, mask)


def example(images: tuple[int, int, int], queries: int, keys: int, heads: int, depth: int, mask: str) -> dict[str, int]:
    """Return axis values; ``mask`` names the axes over which it is not the same: "h" heads, "m" queries."""
    return {
        **dict(zip(("outer", "repeat", "inner"), images, strict=True)),
        **{"m": queries, "t": keys, "h": heads, "d": depth},
        **{"mask_heads": heads if "h" in mask else 1, "mask_rows": queries if "m" in mask else 1},
    }


KERNEL = Kernel(
    name="masked_attention",
    doc="y = Softmax(scale q k^T + mask) v for each head, the mask repeated; zeros for a row without a key",
    axes=(
        Axis("outer", "images or sequences that the mask has too"),
        Axis("repeat", "images or sequences over which the mask is repeated"),
        Axis("inner", "images or sequences, after those, that the mask has too"),
        *AXES,
        Axis("mask_heads", "heads that the mask has: all, or 1"),
        Axis("mask_rows", "queries that the mask has: all, or 1"),
    ),
    inputs=(
        *INPUTS,
        Tensor("mask", (outer, 1, inner, mask_heads, mask_rows, t), "T", "what is added to the scores"),
    ),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=(SCALE,),
    requires=REQUIRES
    & (d <= MOST_DEPTH_MASKED)
    & (n * h * m <= INT32_MAX)
    & ((mask_heads - 1) * (h - mask_heads)).equals(0)
    & ((mask_rows - 1) * (m - mask_rows)).equals(0),
    variants=variants("masked_attention", n, m, (m, t, h, repeat, inner, mask_heads, mask_rows)),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=(
        example((1, 1, 1), 1, 1, 1, 16, "hm"),
        example((2, 3, 2), 17, 70, 3, 32, "hm"),
        example((3, 1, 1), 130, 49, 2, 48, ""),
        example((1, 2, 2), 5, 200, 2, 20, "h"),
        example((1, 6, 1), 49, 49, 3, 32, "hm"),
        example((1, 2, 1), 197, 197, 2, 64, "m"),
        example((1, 1, 1), 512, 300, 2, 128, "m"),
    ),
    claims=claims(FLOPS, masked=True),
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
