"""Declare ``masked_self_attention``: ``self_attention`` with a mask, or a bias, that is added to the scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, Kernel, Tensor

from ..attention.declaration import MOST_DEPTH_MASKED, ON_TENSOR_CORES, SCALE, TILE_ROWS, TYPES, claims, d, h
from ..self_attention.declaration import (
    AXES,
    CLAIMS_OF_FLOATS,
    EXAMPLES,
    FLOPS,
    REQUIRES,
    SHIFT,
    X,
    Y,
    a,
    attended_in_windows,
    b,
    tokens,
    variants,
)
from ..windows.declaration import IN_GROUPS
from .pattern import PATTERNS

mask_windows, mask_heads, mask_rows = OF_MASK = axes("mask_windows mask_heads mask_rows")
MASK_TILES = mask_windows * mask_heads * ceil_div(mask_rows, TILE_ROWS)


def reference(x: np.ndarray, mask: np.ndarray, *, scale: float, shift: int) -> np.ndarray:
    """Compute the attention; a row whose keys the mask hides all, by -infinity, is of zeros."""
    return attended_in_windows(x, scale, shift, mask)


def masked(example: Mapping[str, Any], axes: str) -> Mapping[str, Any]:
    """Add the sizes of a mask; ``axes`` names those over which it is not the same: windows, heads, queries."""
    sizes = {
        "mask_windows": example["a"] * example["b"] if "w" in axes else 1,
        "mask_heads": example["h"] if "h" in axes else 1,
        "mask_rows": example["r"] * example["c"] if "q" in axes else 1,
    }
    return {**example, **sizes}


KERNEL = Kernel(
    name="masked_self_attention",
    doc="y = Softmax(scale q k^T + mask) v for each head, q, k and v parts of x; zeros for a row without a key",
    axes=(
        *AXES,
        Axis("mask_windows", "windows of an image that the mask has: all, or 1"),
        Axis("mask_heads", "heads that the mask has: all, or 1"),
        Axis("mask_rows", "queries that the mask has: all, or 1"),
    ),
    inputs=(X, Tensor("mask", (mask_windows, mask_heads, mask_rows, tokens), "T", "what is added to the scores")),
    outputs=(Y,),
    types=TYPES,
    attributes=(SCALE, SHIFT),
    requires=REQUIRES
    & (d <= MOST_DEPTH_MASKED)
    & ((mask_windows - 1) * (a * b - mask_windows)).equals(0)
    & ((mask_heads - 1) * (h - mask_heads)).equals(0)
    & ((mask_rows - 1) * (tokens - mask_rows)).equals(0),
    variants=variants("masked_self_attention", OF_MASK, mask_tiles=MASK_TILES),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=tuple(map(masked, EXAMPLES, ("whq", "", "hq", "wq", "whq", "h", "q", "hq", "hq", ""))),
    claims=(CLAIMS_OF_FLOATS, *claims(FLOPS, masked=True)),
    in_groups=IN_GROUPS & ON_TENSOR_CORES,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
