"""Say what ``bench`` times of ``pointwise_conv_add``: ends of blocks of EfficientNet-B0 and MobileNetV3."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def block_end(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the last convolution of a block and its residual connection."""
    return F.conv2d(x, w, bias) + other


def layer(channels: int, side: int, filters: int) -> Layer:
    """Return a layer on square images."""
    name = f"pointwise and a residual, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "pointwise_conv_add", axes, block_end, {"activation": "none"})


LAYERS = (layer(144, 56, 24), layer(480, 14, 80), layer(1152, 7, 192))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
