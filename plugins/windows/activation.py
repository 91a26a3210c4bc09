"""Define what can follow a layer: the functions, and the nodes that torch's exporters write for them.

Source: torch.nn's activations through both of torch's exporters at opsets 11 to 23, and those of Hugging Face's
transformers: ``NewGELUActivation`` and ``QuickGELUActivation``.
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
# The constants of the two approximations of GELU, as float32, float16 and bfloat16.
_APPROXIMATED = (
    (0.7978845608028654, 0.044715, 1.702),
    (0.7978515625, 0.044708251953125, 1.7021484375),
    (0.796875, 0.044677734375, 1.703125),
)


def _gelu(y: np.ndarray) -> np.ndarray:
    return np.asarray(y * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(y / math.sqrt(2))))


def _gelu_by_tanh(y: np.ndarray) -> np.ndarray:
    return np.asarray(y * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))))


# activation.cuh has them in this order.
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": np.positive,
    "relu": lambda y: np.maximum(y, 0),
    "relu6": lambda y: np.clip(y, 0, 6),
    "hardswish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "gelu": _gelu,
    "gelu_tanh": _gelu_by_tanh,
    "quick_gelu": lambda y: y / (1 + np.exp(-1.702 * y)),
}
ACTIVATION = Attribute("activation", tuple(ACTIVATIONS), "what follows the layer")


Nodes = tuple[str, Callable[[Any, Any], Any]]


def _gelu_by_erf(root_of_two: float) -> tuple[Nodes, ...]:
    def erf_plus_one(op: Any, y: Any) -> Any:
        return op.Add(op.Erf(op.Div(y, root_of_two)), 1.0)

    return (
        ("gelu", lambda op, y: op.Mul(op.Mul(y, erf_plus_one(op, y)), 0.5)),
        ("gelu", lambda op, y: op.Mul(y, op.Mul(erf_plus_one(op, y), 0.5))),
    )


def _approximate_gelu(root: float, cubic: float, quick: float) -> tuple[Nodes, ...]:
    """Return the nodes of GELU's approximations by tanh and by a sigmoid, with these constants."""

    def tanh_plus_one(op: Any, y: Any, cube: Any) -> Any:
        return op.Add(op.Tanh(op.Mul(op.Add(y, op.Mul(cube, cubic)), root)), 1.0)

    def by_power(op: Any, y: Any) -> Any:
        return tanh_plus_one(op, y, op.Pow(y, 3.0))

    def by_products(op: Any, y: Any) -> Any:
        return tanh_plus_one(op, y, op.Mul(y, op.Mul(y, y)))

    return (
        ("gelu_tanh", lambda op, y: op.Mul(op.Mul(y, 0.5), by_power(op, y))),
        ("gelu_tanh", lambda op, y: op.Mul(y, op.Mul(by_power(op, y), 0.5))),
        ("gelu_tanh", lambda op, y: op.Mul(op.Mul(y, by_products(op, y)), 0.5)),
        ("quick_gelu", lambda op, y: op.Mul(y, op.Sigmoid(op.Mul(y, quick)))),
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
# The approximations of GELU stand in transformers, so dense layers alone have them.
_BY_TANH: Nodes = ("gelu_tanh", lambda op, y: op.Gelu(y, approximate="tanh"))
_IN_FLOATS, *_IN_HALVES = (_approximate_gelu(*constants) for constants in _APPROXIMATED)
NODES_OF_DENSE_LAYERS = (*NODES, _BY_TANH, *_IN_FLOATS)
NODES_OF_DENSE_LAYERS_IN_HALVES = (*NODES_IN_HALVES, _BY_TANH, *(each for nodes in _IN_HALVES for each in nodes))
