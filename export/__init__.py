"""Go from torch to ONNX: LeNet-5, its training and data, and the MatMul and Conv cases.

Importing this package imports neither torch nor onnx; the names below are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lenet_trt.export.cases import ConvCase, MatMulCase, conv_onnx, matmul_onnx
    from lenet_trt.export.lenet5 import Provenance, lenet5_fingerprint, lenet5_onnx
    from lenet_trt.export.weights import load_weights

__all__ = [
    "ConvCase",
    "MatMulCase",
    "Provenance",
    "conv_onnx",
    "lenet5_fingerprint",
    "lenet5_onnx",
    "load_weights",
    "matmul_onnx",
]

_HOMES = {
    "ConvCase": "cases",
    "MatMulCase": "cases",
    "Provenance": "lenet5",
    "conv_onnx": "cases",
    "lenet5_fingerprint": "lenet5",
    "lenet5_onnx": "lenet5",
    "load_weights": "weights",
    "matmul_onnx": "cases",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
