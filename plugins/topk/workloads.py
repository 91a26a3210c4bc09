"""Say what ``bench`` times of ``topk``: the likeliest words, classes and boxes."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("100 of the words", (32, 50257), {"k": 100}),
    Rows("5 classes", (32, 1000), {"k": 5}),
    Rows("100 boxes", (32, 8400), {"k": 100}),
    Rows("100 of a million", (1, 1_000_000), {"k": 100}),
)


def largest(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.topk(x, k).values


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, largest, extent)
