"""Say what ``bench`` times of ``many_channel_conv``: layers of ResNet-18, ResNet-50 and a super-resolution network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, filters: int, size: int = 3, stride: int = 1) -> Layer:
    """Return a layer on square images."""
    pad = size // 2
    attributes: dict[str, AttributeValue] = {"activation": "none", "size": size, "stride": stride, "pad": pad}
    by = f"/{stride}" if stride > 1 else ""
    name = f"many channels {size}x{size}{by}, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "many_channel_conv", axes, partial(F.conv2d, stride=stride, padding=pad), attributes)


LAYERS = (
    layer(32, 256, 32),
    layer(64, 128, 64),
    layer(128, 64, 128),
    layer(64, 56, 64),
    layer(128, 28, 128),
    layer(256, 14, 256),
    layer(512, 7, 512),
    layer(64, 56, 128, stride=2),
    layer(256, 56, 64, size=1),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
