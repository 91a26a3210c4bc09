"""Declare ``gate_add_modulated_layer_norm``: a gated residual connection, and the modulated layer norm of the sum."""

from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Tensor

from ..layer_norm.declaration import WEIGHTS, k, variants
from ..modulated_layer_norm.declaration import OF_IMAGE, ROWS, X, Y, gates, modulated, n, norm_of_tokens, t
from .pattern import PATTERNS


def reference(
    x: np.ndarray,
    other: np.ndarray,
    gate: np.ndarray,
    factor: np.ndarray,
    shift: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    *,
    gate_part: int,
    **attributes: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the norm of the sum, and the sum."""
    total = gate[:, gate_part, np.newaxis] * x + other
    return modulated(total, factor, shift, scale, bias, **attributes), total


NAME = "gate_add_modulated_layer_norm"
KERNEL = norm_of_tokens(
    name=NAME,
    gated=True,
    doc="sum = gate * x + other; y = LayerNormalization(sum, scale, bias) * (1 + factor) + shift",
    inputs=(
        X,
        Tensor("other", (n, t, k), "T", "tokens that are added"),
        Tensor("gate", (n, gates, k), "T", "factors of x's columns; a part of each image", part="gate_part"),
        *OF_IMAGE,
        *WEIGHTS,
    ),
    outputs=(Y, Tensor("sum", (n, t, k), "T", "sums")),
    variants=variants(NAME, tensors=2, rows=ROWS, more=(t,)),
    patterns=PATTERNS,
    reference=reference,
    flops=12 * ROWS * k,
    source_dir=Path(__file__).parent,
)
