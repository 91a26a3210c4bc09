"""Say what ``bench`` times of ``squeeze_excite``: gates of EfficientNet-B0 and MobileNetV3."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def gated(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    """Compute the gates as torchvision's ``SqueezeExcitation`` does, and scale the images."""
    hidden = F.silu(F.conv2d(F.adaptive_avg_pool2d(x, 1), w1, b1))
    return torch.sigmoid(F.conv2d(hidden, w2, b2)) * x


def layer(channels: int, side: int, hidden: int) -> Layer:
    """Return the gates of square images."""
    axes = {"c": channels, "h": side, "w": side, "s": hidden}
    name = f"gates by {hidden}, {channels} of {side}x{side}"
    return Layer(name, "squeeze_excite", axes, gated, {"activation": "silu", "gate": "sigmoid"})


LAYERS = (
    layer(32, 112, 8),
    layer(144, 56, 6),
    layer(240, 28, 10),
    layer(672, 14, 28),
    layer(1152, 7, 48),
    layer(960, 7, 240),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
