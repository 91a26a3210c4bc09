"""Say what ``bench`` times of ``rms_norm``: the RMS norms of three networks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("T5", (32 * 128, 512)),
    Rows("an encoder", (32 * 128, 768)),
    Rows("a language model", (4096, 4096)),
)


def rms_norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, scale.shape, scale, 1e-6)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, rms_norm, extent)
