"""Declare what the modulated layer norms share: behind the norm, each image has factors and shifts of the columns."""

from __future__ import annotations

from functools import partial

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import INT32_MAX, Axis, BesidePlugins, Kernel, Tensor, float_types

from ..layer_norm.declaration import EPSILON, LONG_ROWS, k, normalized
from ..windows.declaration import IN_FLOATS, rows_in_groups

n, t = axes("n t")
ROWS = n * t
EIGHT = 8  # columns that lie side by side, as whole packs in each type
X = Tensor("x", (n, t, k), "T", "tokens")
OF_IMAGE = (
    Tensor("factor", (n, k), "T", "factors of an image's columns, less 1"),
    Tensor("shift", (n, k), "T", "summands of an image's columns"),
)
Y = Tensor("y", (n, t, k), "T", "normalised tokens")


def modulated(
    x: np.ndarray, factor: np.ndarray, shift: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float
) -> np.ndarray:
    """Compute the layer norm of x [n, t, k], times 1 + factor [n, k], plus shift [n, k]."""
    return normalized(x, scale, bias, epsilon) * (1 + factor[:, np.newaxis]) + shift[:, np.newaxis]


norm_of_tokens = partial(
    Kernel,
    axes=(
        Axis("n", "images"),
        Axis("t", "tokens of an image"),
        Axis("k", "columns", static=True),
    ),
    types=float_types(),
    attributes=(EPSILON,),
    max_elements=2**40,
    requires=(ROWS <= INT32_MAX) & k.multiple_of(EIGHT),
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
    in_groups=rows_in_groups(ROWS, k),
    examples=(
        {"n": 1, "t": 1, "k": 8},
        {"n": 3, "t": 7, "k": 96},
        {"n": 2, "t": 197, "k": 384},
        {"n": 5, "t": 61, "k": 1152, "epsilon": 1e-6},
        {"n": 2, "t": 9, "k": 1536},
        {"n": 3, "t": 5, "k": 4104},
        {"n": 2, "t": 2, "k": 40000},
    ),
)
