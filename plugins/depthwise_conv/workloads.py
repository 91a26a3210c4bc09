"""Say what ``bench`` times of ``depthwise_conv``: layers of MobileNetV3, EfficientNet-B0 and ConvNeXt."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, size: int, stride: int) -> Layer:
    """Return a layer on square images whose padding keeps their size, or halves it at stride 2."""
    pad = size // 2
    attributes: dict[str, AttributeValue] = {
        "activation": "none",
        "group": channels,
        "size": size,
        "stride": stride,
        "pad": pad,
    }
    name = f"depthwise {size}x{size}/{stride}, {channels} of {side}x{side}"
    function = partial(F.conv2d, stride=stride, padding=pad, groups=channels)
    return Layer(name, "depthwise_conv", {"h": side, "w": side}, function, attributes)


LAYERS = (
    layer(64, 56, 3, 1),
    layer(64, 112, 3, 2),
    layer(672, 14, 5, 1),
    layer(960, 7, 5, 1),
    layer(64, 56, 7, 1),
    layer(384, 14, 7, 1),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
