"""Say what ``bench`` times of ``concat_shuffle`` and ``concat_shuffle_split``: the joins of ShuffleNetV2."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Join both tensors, and shuffle their channels."""
    return F.channel_shuffle(torch.cat((a, b), 1), 2)


def layer(channels: int, side: int) -> Layer:
    """Return a join of two tensors of square images."""
    axes = {"c": channels, "h": side, "w": side}
    return Layer(f"shuffle of 2 x {channels} of {side}x{side}", "concat_shuffle", axes, joined)


LAYERS = (layer(58, 28), layer(116, 14), layer(232, 7))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the joins, beside torch."""
    yield from each_alone(LAYERS, extent)
