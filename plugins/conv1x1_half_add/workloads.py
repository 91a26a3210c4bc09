"""Say what ``bench`` times of ``conv1x1_half_add``: the last layers of a ResNet-50's blocks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def block_end(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the last convolution of a block, its residual connection and its ReLU."""
    return F.relu(F.conv2d(x, w, bias) + other)


def layer(channels: int, side: int) -> Layer:
    """Return a layer on square images, with four times as many filters as channels."""
    name = f"channels last 1x1 and a residual, {channels} of {side}x{side} to {4 * channels}"
    axes = {"c": channels, "h": side, "w": side, "k": 4 * channels}
    return Layer(name, "conv1x1_half_add", axes, block_end, {"activation": "relu"})


LAYERS = (layer(64, 56), layer(128, 28), layer(256, 14), layer(512, 7))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
