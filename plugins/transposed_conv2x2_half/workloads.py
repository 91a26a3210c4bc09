"""Say what ``bench`` times of ``transposed_conv2x2_half``: the four layers of a U-Net."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(channels: int, side: int, planes: int) -> Layer:
    """Return a layer that doubles square images."""
    name = f"channels last, transposed 2x2, {channels} of {side}x{side} to {planes}"
    axes = {"c": channels, "h": side, "w": side, "k": planes}
    return Layer(name, "transposed_conv2x2_half", axes, partial(F.conv_transpose2d, stride=2), {"activation": "none"})


LAYERS = (layer(512, 16, 256), layer(256, 32, 128), layer(128, 64, 64), layer(64, 128, 32))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone(LAYERS, extent)
