"""Define what can follow a convolution: the functions, and the nodes that torch's exporters write for them.

Source: torch.nn's activations through both of torch's exporters at opsets 11 to 23.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lenet_trt.kernel import Attribute

SIXTH = 0.1666666716337204  # 1/6 as a float32
_ROOT_OF_TWO = 1.4142135381698608  # as a float32
_ROOT_OF_TWO_IN_HALVES = 1.4140625  # as a float16, and as a bfloat16


def _gelu(y: np.ndarray) -> np.ndarray:
    return np.asarray(y * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(y / math.sqrt(2))))


# activation.cuh has them in this order.
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": np.positive,
    "relu": lambda y: np.maximum(y, 0),
    "relu6": lambda y: np.clip(y, 0, 6),
    "hardswish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "gelu": _gelu,
}
ACTIVATION = Attribute("activation", tuple(ACTIVATIONS), "what follows the convolution")


Nodes = tuple[str, Callable[[Any, Any], Any]]


def _gelu_by_erf(root_of_two: float) -> tuple[Nodes, ...]:
    def erf_plus_one(op: Any, y: Any) -> Any:
        return op.Add(op.Erf(op.Div(y, root_of_two)), 1.0)

    return (
        ("gelu", lambda op, y: op.Mul(op.Mul(y, erf_plus_one(op, y)), 0.5)),
        ("gelu", lambda op, y: op.Mul(y, op.Mul(erf_plus_one(op, y), 0.5))),
    )


# The nodes of each activation, in every way in which it is written.
NODES: tuple[Nodes, ...] = (
    ("none", lambda op, y: y),
    ("relu", lambda op, y: op.Relu(y)),
    ("relu6", lambda op, y: op.Clip(y, 0.0, 6.0)),
    ("hardswish", lambda op, y: op.HardSwish(y)),
    ("hardswish", lambda op, y: op.Mul(y, op.HardSigmoid(y, alpha=SIXTH))),
    ("silu", lambda op, y: op.Mul(y, op.Sigmoid(y))),
    ("silu", lambda op, y: op.Mul(op.Sigmoid(y), y)),
    ("gelu", lambda op, y: op.Gelu(y)),
    *_gelu_by_erf(_ROOT_OF_TWO),
)
NODES_IN_HALVES = (*NODES, *_gelu_by_erf(_ROOT_OF_TWO_IN_HALVES))
