"""Declare ``add_group_norm_half``: the norm of ``group_norm_half`` behind the sum with a number for each channel."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Tensor

from ..group_norm.declaration import WEIGHTS, c, n
from ..group_norm.declaration import reference as norm
from ..group_norm_half.declaration import X, norm_of_maps, variants
from ..windows.declaration import h, w
from .pattern import PATTERNS


def reference(
    x: np.ndarray,
    added: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    *,
    activation: str,
    group: int,
    epsilon: float,
) -> np.ndarray:
    """Add, then compute the norm and the activation."""
    return norm(x + added[:, :, None, None], scale, bias, activation=activation, group=group, epsilon=epsilon)


NAME = "add_group_norm_half"
KERNEL = norm_of_maps(
    name=NAME,
    doc="y = act(GroupNormalization(x + added, scale, bias)), added [n, c], channels last, in fp16 and bf16",
    inputs=(X, Tensor("added", (n, c), "T", "what is added to the channels of an image"), *WEIGHTS),
    variants=variants(NAME),
    patterns=PATTERNS,
    reference=reference,
    flops=9 * n * c * h * w,
    source_dir=Path(__file__).parent,
)
