"""Say what ``bench`` times of ``scale_add_softmax``: attention of an encoder over 128 and 512 words."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("attention over 128", (32, 12 * 128, 1, 128), {"scale": 0.125}),
    Rows("attention over 512", (8, 12 * 512, 1, 512), {"scale": 0.125}),
)


def softmax(x: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.softmax(x * scale + mask, -1)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, softmax, extent)
