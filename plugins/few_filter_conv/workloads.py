"""Say what ``bench`` times of ``few_filter_conv``: last layers of segmentation and super-resolution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, filters: int, size: int) -> Layer:
    """Return a layer on square images whose padding keeps their size."""
    pad = size // 2
    attributes: dict[str, AttributeValue] = {"activation": "none", "size": size, "stride": 1, "pad": pad}
    name = f"to few filters {size}x{size}, {channels} of {side}x{side} to {filters}"
    axes = {"c": channels, "h": side, "w": side, "k": filters}
    return Layer(name, "few_filter_conv", axes, partial(F.conv2d, padding=pad), attributes)


LAYERS = (layer(64, 56, 8, 5), layer(64, 128, 3, 3), layer(32, 128, 1, 5))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
