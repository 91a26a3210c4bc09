"""Say what ``bench`` times of ``conv3x3_half_shuffle``: the last layer of a super-resolution network."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def shuffled_convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute a layer and the pixel shuffle behind it."""
    return F.pixel_shuffle(F.conv2d(x, w, bias, padding=1), 2)


def layer(channels: int, side: int, filters: int) -> Layer:
    """Return a layer on square images."""
    name = f"channels last 3x3 and a pixel shuffle, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "conv3x3_half_shuffle", axes, shuffled_convolution, {"activation": "none"})


LAYERS = (layer(64, 128, 12),)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
