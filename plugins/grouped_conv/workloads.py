"""Say what ``bench`` times of ``grouped_conv``: layers of ResNeXt and RegNet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(channels: int, side: int, groups: int) -> Layer:
    """Return a layer with as many filters as channels, 3x3 and stride 1."""
    attributes: dict[str, AttributeValue] = {"activation": "none", "group": groups, "size": 3, "stride": 1, "pad": 1}
    axes = {"h": side, "w": side, "cg": channels // groups, "k": channels}
    function = partial(F.conv2d, padding=1, groups=groups)
    return Layer(f"grouped 3x3, {groups} of {axes['cg']}, {side}x{side}", "grouped_conv", axes, function, attributes)


LAYERS = (layer(64, 56, 8), layer(128, 56, 32), layer(512, 14, 32))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
