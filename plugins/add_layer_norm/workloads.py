"""Say what ``bench`` times of ``add_layer_norm``: the sums and layer norms of three networks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("ViT tiny", (32 * 197, 192)),
    Rows("an encoder", (32 * 128, 768)),
    Rows("a language model", (4096, 4096)),
)


def add_layer_norm(
    x: torch.Tensor, other: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + other
    return torch.nn.functional.layer_norm(total, scale.shape, scale, bias, 1e-5), total


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, add_layer_norm, extent)
