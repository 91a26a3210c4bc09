"""Say what ``bench`` times of ``layer_norm``: the layer norms of four networks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("ViT tiny", (32 * 197, 192)),
    Rows("Swin tiny", (32 * 56 * 56, 96)),
    Rows("an encoder", (32 * 128, 768)),
    Rows("a language model", (4096, 4096)),
)


def layer_norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, scale.shape, scale, bias, 1e-5)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, layer_norm, extent)
