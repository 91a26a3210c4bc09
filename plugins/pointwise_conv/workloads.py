"""Say what ``bench`` times of ``pointwise_conv``: layers of EfficientNet-B0 and ShuffleNetV2."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, filters: int) -> Layer:
    """Return a layer on square images."""
    attributes: dict[str, AttributeValue] = {"activation": "none"}
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(f"pointwise, {channels} of {side}x{side} to {filters}", "pointwise_conv", axes, F.conv2d, attributes)


LAYERS = (layer(16, 112, 96), layer(144, 56, 24), layer(480, 14, 80), layer(116, 14, 116), layer(192, 7, 1152))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
