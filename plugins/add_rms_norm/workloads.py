"""Say what ``bench`` times of ``add_rms_norm``: the sums and RMS norms of three networks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..rms_norm.workloads import SIZES
from . import KERNEL


def add_rms_norm(x: torch.Tensor, other: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + other
    return torch.nn.functional.rms_norm(total, scale.shape, scale, 1e-6), total


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, add_rms_norm, extent)
