"""Say what ``bench`` times of ``global_average_pool``: the heads and the gates of MobileNetV3 and EfficientNet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(channels: int, side: int) -> Layer:
    """Return the mean of square images."""
    axes = {"c": channels, "h": side, "w": side}
    function = partial(F.adaptive_avg_pool2d, output_size=1)
    return Layer(f"mean of {channels} of {side}x{side}", "global_average_pool", axes, function)


LAYERS = (layer(64, 56), layer(480, 14), layer(960, 7))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the means, beside torch."""
    yield from each_alone(LAYERS, extent)
