"""ONNX's QuantizeLinear and DequantizeLinear in torch, as ``torch_layers`` has the layers: rounded half to even.

Layers between the two compute in float, as the model says it; joining them into integer layers is TensorRT's business.
Source: the ONNX operator specification (onnx.ai/onnx/operators).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_layers import TorchOperator
from lenet_trt.runtimes.graph.torch_node import Node
from lenet_trt.runtimes.graph.torch_shapes import torch_dtype

_TAKEN = (torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn)


def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Divide by the scale, round, add the zero point, and saturate to the type of the zero point."""
    kind = _kind(node, zero)
    scaled = x / _along(node, scale, x)
    if kind == torch.float8_e4m3fn:
        if not node.get("saturate", 1):
            raise LenetTrtError("saturate 0 is not supported: numbers that are too large become the largest here")
        most = torch.finfo(kind).max
        return scaled.clamp(-most, most).to(kind)
    shifted = torch.round(scaled)
    if zero is not None:
        shifted = shifted + _along(node, zero, x).to(x.dtype)
    limits = torch.iinfo(kind)
    return shifted.clamp(limits.min, limits.max).to(kind)


def dequantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Subtract the zero point, and multiply by the scale."""
    _check(node, x.dtype)
    values = x.to(scale.dtype)
    if zero is not None and zero.dtype != torch.float8_e4m3fn:
        values = values - _along(node, zero, x).to(scale.dtype)
    return values * _along(node, scale, x)


def _kind(node: Node, zero: Tensor | None) -> torch.dtype:
    given = node.get("output_dtype", 0)
    kind = zero.dtype if zero is not None else torch_dtype(given) if given else torch.uint8
    _check(node, kind)
    return kind


def _check(node: Node, kind: torch.dtype) -> None:
    if kind not in _TAKEN:
        raise LenetTrtError(f"its quantized type is {kind}; supported are {', '.join(map(str, _TAKEN))}")
    if node.get("block_size", 0):
        raise LenetTrtError("scales of blocks are not supported")


def _along(node: Node, values: Tensor, x: Tensor) -> Tensor:
    """Return values of one axis in the shape that goes with ``x``."""
    if values.dim() == 0 or values.numel() == 1:
        return values.reshape(())
    shape = [1] * x.dim()
    shape[node.get("axis", 1)] = values.numel()
    return values.reshape(shape)


QUANTIZERS: dict[str, TorchOperator] = {"DequantizeLinear": dequantize_linear, "QuantizeLinear": quantize_linear}
