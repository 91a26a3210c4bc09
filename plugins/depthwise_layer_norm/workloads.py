"""Say what ``bench`` times of ``depthwise_layer_norm``: the layers of a ConvNeXt, atto and tiny."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

SIZES = ((40, 56), (80, 28), (160, 14), (320, 7), (96, 56), (192, 28), (384, 14), (768, 7))


def convolution_and_norm(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    """Compute the convolution, then normalise each pixel."""
    y = F.conv2d(x, w, bias, padding=3, groups=len(w))
    return F.layer_norm(y.permute(0, 2, 3, 1), scale.shape, scale, shift, 1e-6)


def layer(channels: int, side: int) -> Layer:
    """Return a layer on square images."""
    name = f"channels last, depthwise 7x7 and norm, {channels} of {side}x{side}"
    attributes = {"epsilon": 1e-6, "group": channels}
    return Layer(name, "depthwise_layer_norm", {"h": side, "w": side}, convolution_and_norm, attributes)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch with channels last."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
