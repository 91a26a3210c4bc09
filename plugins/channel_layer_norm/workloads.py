"""Say what ``bench`` times of ``channel_layer_norm``: the norms between the stages of a ConvNeXt, atto and tiny."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..depthwise_layer_norm.workloads import SIZES


def norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Normalise each pixel."""
    return F.layer_norm(x.permute(0, 2, 3, 1), scale.shape, scale, bias, 1e-6).permute(0, 3, 1, 2)


def layer(channels: int, side: int) -> Layer:
    """Return a norm of square images."""
    name = f"channels last, norm of {channels} channels, {side}x{side}"
    return Layer(name, "channel_layer_norm", {"k": channels, "h": side, "w": side}, norm, {"epsilon": 1e-6})


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the norms, beside torch with channels last."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
