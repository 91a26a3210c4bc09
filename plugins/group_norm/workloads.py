"""Say what ``bench`` times of ``group_norm``: the norms of an audio network and of a diffusion model's U-Net."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent


def layer(channels: int, pixels: int, groups: int) -> Layer:
    """Return a norm that SiLU follows."""

    def function(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.silu(F.group_norm(x, groups, scale, bias))

    name = f"group norm + SiLU, {groups} of {channels}x{pixels}"
    return Layer(name, "group_norm", {"c": channels, "s": pixels}, function, {"group": groups, "activation": "silu"})


LAYERS = (layer(64, 2000, 8), layer(320, 64 * 64, 32), layer(1280, 16 * 16, 32))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the norms, beside torch."""
    yield from each_alone(LAYERS, extent)
