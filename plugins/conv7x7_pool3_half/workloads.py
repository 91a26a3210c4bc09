"""Say what ``bench`` times of ``conv7x7_pool3_half``: the stem of a ResNet, at three sizes of images."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def stem(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the convolution, ReLU and pooling."""
    return F.max_pool2d(F.relu(F.conv2d(x, w, bias, stride=2, padding=3)), 3, stride=2, padding=1)


def layer(side: int, channels: int = 3) -> Layer:
    """Return the stem on square images."""
    name = f"stem with pooling, {channels} of {side}x{side} to 64"
    axes = {"c": channels, "h": side, "w": side, "k": 64}
    return Layer(name, "conv7x7_pool3_half", axes, stem, {"activation": "relu"})


LAYERS = (layer(224), layer(448), layer(256), layer(224, channels=1))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
