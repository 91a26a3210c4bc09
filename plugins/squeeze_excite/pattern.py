"""Define the nodes that ``squeeze_excite`` replaces: images times gates, made of their means by two 1x1 convolutions.

Source: the gates of torchvision and timm through both of torch's exporters.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from lenet_trt.pattern import Pattern

from ..global_average_pool.pattern import mean_over, pool
from ..windows.activation import NODES, SIXTH

# layer.cuh has them in this order.
GATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda y: np.asarray(1 / (1 + np.exp(-y))),
    "hardsigmoid": lambda y: np.clip(y / 6 + 0.5, 0, 1),
}
_GATE_NODES: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("sigmoid", lambda op, y: op.Sigmoid(y)),
    ("hardsigmoid", lambda op, y: op.HardSigmoid(y, alpha=SIXTH)),
)
# Those between the two convolutions of a gate.
_BETWEEN = ("relu", "silu")
_MEANS = (pool, *(mean_over(axes, operand=operand) for axes in ([2, 3], [-1, -2]) for operand in (True, False)))


def _gated(mean: Any, between: Any, gate: Any, *, image_first: bool) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        hidden = between(op, op.Conv(mean(op, x), w1, b1, kernel_shape=[1, 1]))
        scale = gate(op, op.Conv(hidden, w2, b2, kernel_shape=[1, 1]))
        return op.Mul(x, scale) if image_first else op.Mul(scale, x)

    return graph


PATTERNS = tuple(
    Pattern(_gated(mean, between, gate, image_first=image_first), {"activation": activation, "gate": name})
    for (activation, between), (name, gate), mean, image_first in product(NODES, _GATE_NODES, _MEANS, (True, False))
    if activation in _BETWEEN
)
