"""Declare ``modulated_layer_norm``: a layer norm that each image scales and shifts, as in diffusion transformers."""

from pathlib import Path

from ..layer_norm.declaration import WEIGHTS, k, variants
from .declaration import OF_IMAGE, ROWS, X, Y, modulated, norm_of_tokens, t
from .pattern import PATTERNS

NAME = "modulated_layer_norm"
KERNEL = norm_of_tokens(
    name=NAME,
    doc="y = LayerNormalization(x, scale, bias) * (1 + factor) + shift, factor and shift of each image",
    inputs=(X, *OF_IMAGE, *WEIGHTS),
    outputs=(Y,),
    variants=variants(NAME, rows=ROWS, more=(t,)),
    patterns=PATTERNS,
    reference=modulated,
    flops=10 * ROWS * k,
    source_dir=Path(__file__).parent,
)
