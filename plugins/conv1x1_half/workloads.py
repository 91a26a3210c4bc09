"""Say what ``bench`` times of ``conv1x1_half``: the first layers of a ResNet-50's blocks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute a layer with its ReLU."""
    return F.relu(F.conv2d(x, w, bias))


def layer(channels: int, side: int, filters: int) -> Layer:
    """Return a layer on square images."""
    name = f"channels last 1x1, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "conv1x1_half", axes, convolution, {"activation": "relu"})


LAYERS = (layer(64, 56, 64), layer(256, 56, 64), layer(512, 28, 128), layer(1024, 14, 256), layer(2048, 7, 512))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
