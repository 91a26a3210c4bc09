"""Say what ``bench`` times of ``conv3x3_half_add``: the ends of blocks of ResNet-18 and a super-resolution network."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def block_end(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the last convolution of a block, its residual connection and its ReLU."""
    return F.relu(F.conv2d(x, w, bias, padding=1) + other)


def layer(channels: int, side: int) -> Layer:
    """Return a layer on square images, with as many filters as channels."""
    name = f"channels last 3x3 and a residual, {channels} of {side}x{side}"
    axes = {"c": channels, "h": side, "w": side, "k": channels}
    return Layer(name, "conv3x3_half_add", axes, block_end, {"activation": "relu"})


LAYERS = (layer(64, 56), layer(128, 28), layer(256, 14), layer(512, 7), layer(64, 128))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
