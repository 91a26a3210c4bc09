"""Declare what the RMS norms have in common beside what they share with the layer norms."""

from __future__ import annotations

import numpy as np

from lenet_trt.kernel import FloatAttribute, Tensor

from ..layer_norm.declaration import k

SCALE = Tensor("scale", (k,), "T", "factors of the columns", weight=True)
EPSILON = FloatAttribute("epsilon", (1e-6,), "is added to the mean square", least=0.0)


def normalized(x: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    """Compute each row over the root of its mean square, scaled."""
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + epsilon) * scale
