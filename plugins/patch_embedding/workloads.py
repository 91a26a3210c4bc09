"""Say what ``bench`` times of ``patch_embedding``: what vision transformers, a Swin and a ConvNeXt begin with."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(title: str, side: int, size: int, outputs: int) -> Layer:
    """Return the layer on square colour images."""

    def function(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weights, bias, stride=size).permute(0, 2, 3, 1).contiguous()

    name = f"patches of {title} {size}x{size}, 3 of {side}x{side} to {outputs}"
    return Layer(name, "patch_embedding", {"c": 3, "h": side, "w": side, "k": outputs}, function, {"size": size})


LAYERS = (
    layer("ViT-Ti", 224, 16, 192),
    layer("ViT-B", 224, 16, 768),
    layer("ViT-B", 384, 32, 768),
    layer("Swin-T", 224, 4, 96),
    layer("ConvNeXt-Atto", 224, 4, 40),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
