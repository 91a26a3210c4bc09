"""Say what ``bench`` times of ``linear_half_add``: the last layers of a ConvNeXt's blocks, atto and tiny."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..depthwise_layer_norm.workloads import SIZES


def layer_and_sum(x: torch.Tensor, other: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute the layer of each pixel, put channels first, and add."""
    return F.linear(x, w, bias).permute(0, 3, 1, 2) + other


def layer(channels: int, side: int) -> Layer:
    """Return a layer on square images, which has four times as many inputs as outputs."""
    name = f"channels last, {4 * channels} to {channels} and a residual, {side}x{side}"
    axes = {"h": side, "w": side, "in": 4 * channels, "out": channels}
    return Layer(name, "linear_half_add", axes, layer_and_sum, {"activation": "none"})


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
