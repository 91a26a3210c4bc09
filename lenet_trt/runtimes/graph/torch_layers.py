"""Compute ONNX's layers in torch: convolutions, products, pooling, normalisation and activations.

Each function takes its ``Node`` and the inputs in ONNX's order, None for an input that is left out.
Source: the ONNX operator specification (onnx.ai/onnx/operators).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_node import Node

TorchOperator: TypeAlias = Callable[..., "Tensor | Sequence[Tensor]"]

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
_MAX_POOLS = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE_POOLS = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _padding(node: Node, x: Tensor, window: Sequence[int]) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis."""
    rank = len(window)
    mode = node.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = node.get("pads", [0] * (2 * rank))
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return [(0, 0)] * rank
    found = []
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    for size, length, stride, dilation in zip(x.shape[2:], window, strides, dilations, strict=True):
        total = max((math.ceil(size / stride) - 1) * stride + dilation * (length - 1) + 1 - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return found


def _padded(x: Tensor, pads: Sequence[tuple[int, int]], value: float) -> Tensor:
    flat = [amount for pair in reversed(pads) for amount in pair]
    return functional.pad(x, flat, value=value) if any(flat) else x


def _function(table: Mapping[int, Callable[..., Tensor]], rank: int) -> Callable[..., Tensor]:
    if rank not in table:
        raise LenetTrtError(f"it has {rank} spatial axes; 1 to 3 are supported")
    return table[rank]


def conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    rank = w.dim() - 2
    pads = _padding(node, x, w.shape[2:])
    same = all(before == after for before, after in pads)
    return _function(_CONVOLUTIONS, rank)(
        x if same else _padded(x, pads, 0.0),
        w,
        b,
        stride=node.get("strides", [1] * rank),
        padding=[before for before, _ in pads] if same else [0] * rank,
        dilation=node.get("dilations", [1] * rank),
        groups=node.get("group", 1),
    )


def conv_transpose(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    rank = w.dim() - 2
    pads = _padding(node, x, w.shape[2:])
    if node.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes:
        raise LenetTrtError("auto_pad and output_shape are not supported: name the pads")
    if any(before != after for before, after in pads):
        raise LenetTrtError("its padding differs before and after an axis: torch has no operator for that")
    return _function(_TRANSPOSED, rank)(
        x,
        w,
        b,
        stride=node.get("strides", [1] * rank),
        padding=[before for before, _ in pads],
        output_padding=node.get("output_padding", [0] * rank),
        groups=node.get("group", 1),
        dilation=node.get("dilations", [1] * rank),
    )


def max_pool(node: Node, x: Tensor) -> Tensor:
    if len(node.outputs) > 1:
        raise LenetTrtError("its second output, the positions, is not supported")
    window = node.get("kernel_shape")
    pads = _padding(node, x, window)
    # torch pads both ends alike, by half a window at most.
    own = all(before == after and 2 * before <= length for (before, after), length in zip(pads, window, strict=True))
    return _function(_MAX_POOLS, len(window))(
        x if own else _padded(x, pads, -math.inf),
        window,
        stride=node.get("strides", [1] * len(window)),
        padding=[before for before, _ in pads] if own else [0] * len(window),
        dilation=node.get("dilations", [1] * len(window)),
        ceil_mode=bool(node.get("ceil_mode", 0)),
    )


def average_pool(node: Node, x: Tensor) -> Tensor:
    window = node.get("kernel_shape")
    if any(dilation != 1 for dilation in node.get("dilations", [])):
        raise LenetTrtError("an average over a dilated window is not supported")
    pads = _padding(node, x, window)
    strides = node.get("strides", [1] * len(window))
    pool = _function(_AVERAGE_POOLS, len(window))
    ceil = bool(node.get("ceil_mode", 0))
    if all(before == after for before, after in pads):
        padding = [before for before, _ in pads]
        counted = bool(node.get("count_include_pad", 0))
        return pool(x, window, strides, padding, ceil, counted)
    mean = pool(_padded(x, pads, 0.0), window, strides, 0, ceil)
    if node.get("count_include_pad", 0):
        return mean
    share = pool(_padded(torch.ones_like(x[:1, :1]), pads, 0.0), window, strides, 0, ceil)
    return mean / share


def global_pool(reduce: Callable[..., Tensor]) -> TorchOperator:
    return lambda node, x: reduce(x, dim=tuple(range(2, x.dim())), keepdim=True)


def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = a.t() if node.get("transA", 0) else a
    if node.get("transB", 0) and alpha == 1 and (c is None or (beta == 1 and c.dim() == 1)):
        return functional.linear(a, b, c)
    b = b.t() if node.get("transB", 0) else b
    return alpha * (a @ b) if c is None else torch.addmm(c, a, b, beta=beta, alpha=alpha)


def batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    if node.get("training_mode", 0):
        raise LenetTrtError("it is in training mode: export the network for inference")
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, node.get("epsilon", 1e-5))


def instance_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.instance_norm(x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5))


def layer_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    if len(node.outputs) > 1:
        raise LenetTrtError("only its first output is supported")
    axis = node.get("axis", -1)
    return functional.layer_norm(x, x.shape[axis:], scale, bias, node.get("epsilon", 1e-5))


def group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.get("num_groups")
    if node.opset < 21:  # a number for each group, and not yet for each channel
        scale, bias = (values.repeat_interleave(x.shape[1] // groups) for values in (scale, bias))
    return functional.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


def local_response_norm(node: Node, x: Tensor) -> Tensor:
    alpha, beta, bias = node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    return functional.local_response_norm(x, node.get("size"), alpha, beta, bias)


def along_axis(function: Callable[..., Tensor]) -> TorchOperator:
    """Wrap Softmax and similar functions: before operator set 13 all axes from this axis on counted as one."""

    def apply(node: Node, x: Tensor) -> Tensor:
        if node.opset >= 13:
            return function(x, dim=node.get("axis", -1))
        axis = node.get("axis", 1) % x.dim()
        return function(x.flatten(axis), dim=axis).reshape(x.shape)

    return apply


def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, slope * x, x)


def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return (node.get("alpha", 0.2) * x + node.get("beta", 0.5)).clamp(0, 1)


def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    minimum = node.get("min") if low is None else low
    maximum = node.get("max") if high is None else high
    return x if minimum is None and maximum is None else torch.clamp(x, minimum, maximum)


def gelu(node: Node, x: Tensor) -> Tensor:
    return functional.gelu(x, approximate=node.get("approximate", "none"))


LAYERS: dict[str, TorchOperator] = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Clip": clip,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Einsum": lambda node, *values: torch.einsum(node.get("equation"), *values),
    "Elu": lambda node, x: functional.elu(x, node.get("alpha", 1.0)),
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": global_pool(torch.mean),
    "GlobalMaxPool": global_pool(torch.amax),
    "GroupNormalization": group_norm,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda node, x: functional.hardswish(x),
    "InstanceNormalization": instance_norm,
    "LRN": local_response_norm,
    "LayerNormalization": layer_norm,
    "LeakyRelu": lambda node, x: functional.leaky_relu(x, node.get("alpha", 0.01)),
    "LogSoftmax": along_axis(torch.log_softmax),
    "MatMul": lambda node, a, b: torch.matmul(a, b),
    "MaxPool": max_pool,
    "Mish": lambda node, x: functional.mish(x),
    "PRelu": prelu,
    "Relu": lambda node, x: torch.relu(x),
    "Selu": lambda node, x: functional.selu(x),
    "Sigmoid": lambda node, x: torch.sigmoid(x),
    "Softmax": along_axis(torch.softmax),
    "Softplus": lambda node, x: functional.softplus(x),
    "Softsign": lambda node, x: functional.softsign(x),
    "Tanh": lambda node, x: torch.tanh(x),
}
