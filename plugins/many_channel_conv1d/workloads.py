"""Say what ``bench`` times of ``many_channel_conv1d``: layers of networks for sound, dilated and not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, steps: int, filters: int, size: int, dilation: int = 1) -> Layer:
    """Return a layer that keeps the number of steps."""
    pad = size // 2 * dilation
    attributes: dict[str, AttributeValue] = {
        "activation": "none",
        "size": size,
        "stride": 1,
        "pad": pad,
        "dilation": dilation,
    }
    dilated = f", dilation {dilation}" if dilation > 1 else ""
    name = f"many channels along time, {size} taps{dilated}, {channels} of {steps} to {filters}"
    axes = {"c": channels, "w": steps, "k": filters}
    return Layer(name, "many_channel_conv1d", axes, partial(F.conv1d, padding=pad, dilation=dilation), attributes)


LAYERS = (
    layer(64, 2000, 64, 9),
    layer(64, 2000, 64, 9, dilation=32),
    layer(256, 1000, 256, 3, dilation=4),
    layer(80, 3000, 384, 3),
    layer(512, 250, 512, 3),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
