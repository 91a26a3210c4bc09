"""Say what ``bench`` times of ``merge_layer_norm``: between the stages of a Swin tiny."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

# Channels, and the side of an image.
SIZES = ((96, 56), (192, 28), (384, 14))


def merge_and_norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Merge patches as torchvision does, and normalise them."""
    merged = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    return F.layer_norm(merged, scale.shape, scale, bias, 1e-5)


def layer(channels: int, side: int) -> Layer:
    """Return the layer of square images."""
    name = f"Swin tiny, merged patches of {side}x{side}x{channels}"
    return Layer(name, "merge_layer_norm", {"k": 4 * channels, "h": side, "w": side}, merge_and_norm)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
