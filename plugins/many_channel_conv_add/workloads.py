"""Say what ``bench`` times of ``many_channel_conv_add``: the ends of blocks of ResNet-18 and ResNet-50."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, filters: int, size: int) -> Layer:
    """Return the last convolution of a block, its residual connection and its ReLU."""
    pad = size // 2
    attributes: dict[str, AttributeValue] = {"activation": "relu", "size": size, "stride": 1, "pad": pad}

    def block_end(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.relu(F.conv2d(x, w, bias, padding=pad) + other)

    name = f"many channels {size}x{size} and a residual, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "many_channel_conv_add", axes, block_end, attributes)


LAYERS = (layer(64, 56, 64, 3), layer(256, 14, 256, 3), layer(64, 56, 256, 1))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
