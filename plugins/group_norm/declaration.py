"""Declare what ``group_norm`` and ``group_norm_half`` share: attributes, weights and the reference."""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import INT32_MAX, FloatAttribute, IntegerAttribute, Tensor

from ..windows.activation import ACTIVATION, ACTIVATIONS

n, c, group = axes("n c group")
MANY = INT32_MAX // 64  # more groups, or slabs of channels, than tensors have
WEIGHTS = (
    Tensor("scale", (c,), "T", "factors of the channels", weight=True),
    Tensor("bias", (c,), "T", "summands of the channels", weight=True),
)
ATTRIBUTES = (
    ACTIVATION,
    IntegerAttribute("group", 1, 8192, (2,), "groups of channels"),
    FloatAttribute("epsilon", (1e-5,), "is added to the variance", least=0.0),
)


def reference(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, activation: str, group: int, epsilon: float
) -> np.ndarray:
    """Compute the distances from each group's mean over its standard deviation, then the activation."""
    groups = x.reshape(x.shape[0], group, -1) if x.size else x.reshape(x.shape[0], group, 0)
    distances = groups - groups.mean(axis=-1, keepdims=True)
    variance = np.square(distances).mean(axis=-1, keepdims=True)
    normal = (distances / np.sqrt(variance + epsilon)).reshape(x.shape)
    of_channels = (-1, *[1] * (x.ndim - 2))
    return ACTIVATIONS[activation](normal * scale.reshape(of_channels) + bias.reshape(of_channels))
