"""Say what ``bench`` times of ``average_pool``: pools of Inception and of DenseNet's transitions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(channels: int, side: int, size: int, stride: int, pad: int) -> Layer:
    """Return a pool on square images that leaves padding out of the means."""
    attributes = {"size": size, "stride": stride, "pad": pad, "count_include_pad": 0}
    axes = {"c": channels, "h": side, "w": side}
    function = partial(F.avg_pool2d, kernel_size=size, stride=stride, padding=pad, count_include_pad=False)
    return Layer(
        f"mean {size}x{size}/{stride}, {channels} of {side}x{side}", "average_pool", axes, function, attributes
    )


LAYERS = (layer(64, 56, 3, 1, 1), layer(192, 28, 3, 1, 1), layer(128, 56, 2, 2, 0))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the pools, beside torch."""
    yield from each_alone(LAYERS, extent)
