"""Say what ``bench`` times of ``patch_embedding`` and ``patch_embedding_half``: layers with which networks begin.

They are vision transformers, a Swin and a ConvNeXt.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(kernel: str, title: str, side: int, size: int, outputs: int) -> Layer:
    """Return the layer on square colour images."""

    def function(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weights, bias, stride=size).permute(0, 2, 3, 1).contiguous()

    name = f"patches of {title} {size}x{size}, 3 of {side}x{side} to {outputs}"
    return Layer(name, kernel, {"c": 3, "h": side, "w": side, "k": outputs}, function, {"size": size})


# Sides of an image and of a patch, and outputs.
SIZES = (
    ("ViT-Ti", 224, 16, 192),
    ("ViT-B", 224, 16, 768),
    ("ViT-B", 384, 32, 768),
    ("Swin-T", 224, 4, 96),
    ("ConvNeXt-Atto", 224, 4, 40),
)


def layers_by(kernel: str, extent: Extent) -> Iterator[Workload]:
    """Yield the layers by a kernel, beside torch."""
    yield from each_alone([layer(kernel, *sizes) for sizes in SIZES], extent)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers in fp32."""
    yield from layers_by("patch_embedding", extent)
