"""Say what ``bench`` times of ``conv3x3_half``: layers of ResNet-18, a U-Net and a super-resolution network."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute a layer with its ReLU."""
    return F.relu(F.conv2d(x, w, bias, padding=1))


def layer(channels: int, side: int, filters: int) -> Layer:
    """Return a layer on square images."""
    name = f"channels last 3x3, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "conv3x3_half", axes, convolution, {"activation": "relu"})


SIZES = ((64, 56), (128, 28), (256, 14), (512, 7), (64, 128), (128, 64), (512, 16))
U_NET = (layer(128, 128, 64), layer(64, 256, 32), layer(32, 256, 32))
LAYERS = (*(layer(channels, side, channels) for channels, side in SIZES), *U_NET)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
