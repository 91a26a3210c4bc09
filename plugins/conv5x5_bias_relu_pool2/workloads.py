"""Say what ``bench`` times of ``conv5x5_bias_relu_pool2``: the write-ups' convolution and LeNet-5's two stages."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.export.geometry import LENET5, Conv, input_shapes

from ..conv5x5.workload import convolution_workloads

NAME = "conv5x5_bias_relu_pool2"


def torch_stage(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the same in torch."""
    return F.max_pool2d(F.relu(F.conv2d(x, weights, bias)), 2)


def _layer(conv: Conv) -> Layer:
    """Describe a convolution of LeNet-5 with the ReLU and the pool after it."""
    c, h, w = input_shapes()[conv.name]
    return Layer(f"{conv.name} stage", NAME, {"c": c, "h": h, "w": w, "k": conv.out_channels}, torch_stage)


LAYERS = tuple(_layer(layer) for layer in LENET5 if isinstance(layer, Conv))


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the convolution with bias, ReLU and max-pool."""
    yield from convolution_workloads(NAME, "bias, ReLU, 2x2 max-pool", torch_stage, extent)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield each stage alone, beside torch."""
    yield from each_alone(LAYERS, extent)
