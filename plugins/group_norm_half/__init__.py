"""Declare ``group_norm_half``: GroupNormalization of maps and an optional activation, channels last, in 16 bits."""

from pathlib import Path

from ..group_norm.declaration import WEIGHTS, c, n, reference
from ..group_norm.pattern import as_maps, patterns
from ..windows.activation import NODES_IN_HALVES
from ..windows.declaration import h, w
from .declaration import X, norm_of_maps, variants

NAME = "group_norm_half"
KERNEL = norm_of_maps(
    name=NAME,
    doc="y = act(GroupNormalization(x, scale, bias)), channels last, in fp16 and bf16",
    inputs=(X, *WEIGHTS),
    variants=variants(NAME),
    patterns=patterns(NODES_IN_HALVES, as_maps, image_axes=2),
    reference=reference,
    flops=8 * n * c * h * w,
    source_dir=Path(__file__).parent,
)
