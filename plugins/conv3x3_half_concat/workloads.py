"""Say what ``bench`` times of ``conv3x3_half_concat``: the layers of a U-Net behind its concatenations."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def joined_convolution(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Join two tensors, and compute the layer that reads them with its ReLU."""
    return F.relu(F.conv2d(torch.cat([x, other], 1), w, bias, padding=1))


def layer(channels: int, side: int) -> Layer:
    """Return a layer on square images, with as many filters as each of the two tensors has channels."""
    name = f"channels last 3x3 of two, {channels} + {channels} of {side}x{side}"
    axes = {"c": channels, "d": channels, "h": side, "w": side, "k": channels}
    return Layer(name, "conv3x3_half_concat", axes, joined_convolution, {"activation": "relu"})


LAYERS = (layer(32, 256), layer(64, 128), layer(128, 64), layer(256, 32))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
