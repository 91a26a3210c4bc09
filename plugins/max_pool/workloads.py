"""Say what ``bench`` times of ``max_pool``: pools of ResNet and Inception."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(channels: int, side: int, size: int, stride: int) -> Layer:
    """Return a pool on square images whose padding is half of the window."""
    attributes = {"size": size, "stride": stride, "pad": size // 2}
    axes = {"c": channels, "h": side, "w": side}
    function = partial(F.max_pool2d, kernel_size=size, stride=stride, padding=size // 2)
    return Layer(f"max {size}x{size}/{stride}, {channels} of {side}x{side}", "max_pool", axes, function, attributes)


LAYERS = (layer(64, 112, 3, 2), layer(192, 28, 3, 1))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the pools, beside torch."""
    yield from each_alone(LAYERS, extent)
