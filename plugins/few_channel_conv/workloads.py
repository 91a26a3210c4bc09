"""Say what ``bench`` times of ``few_channel_conv``: stems of networks, and super-resolution."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.peers import TorchFunction
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue

FUNCTIONS: dict[str, TorchFunction] = {"relu": F.relu, "hardswish": F.hardswish, "silu": F.silu}


def layer(
    title: str, channels: int, side: int, filters: int, size: int, stride: int, activation: str = "none"
) -> Layer:
    """Return a layer on square images whose padding keeps their size, or halves it at stride 2."""
    pad = size // 2
    attributes: dict[str, AttributeValue] = {"activation": activation, "size": size, "stride": stride, "pad": pad}
    name = f"{title} {size}x{size}/{stride}, {channels} of {side}x{side} to {filters}, {activation}"

    def function(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(x, weights, bias, stride=stride, padding=pad)
        return FUNCTIONS[activation](y) if activation in FUNCTIONS else y

    return Layer(name, "few_channel_conv", {"c": channels, "h": side, "w": side, "k": filters}, function, attributes)


LAYERS = (
    layer("stem of ResNet", 3, 224, 64, 7, 2, "relu"),
    layer("stem of MobileNetV3", 3, 224, 16, 3, 2, "hardswish"),
    layer("stem of EfficientNet", 3, 224, 32, 3, 2, "silu"),
    layer("super-resolution", 1, 128, 64, 5, 1, "relu"),
    layer("super-resolution", 3, 128, 64, 5, 1),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
