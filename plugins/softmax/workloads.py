"""Say what ``bench`` times of ``softmax``: attention of three networks, a classifier, words of a language model."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = (
    Rows("attention over 196", (32 * 6 * 196, 196)),
    Rows("windows of 49", (32 * 64 * 3 * 49, 49)),
    Rows("attention over 512", (8 * 12 * 512, 512)),
    Rows("a classifier", (32, 1000)),
    Rows("words", (32, 50257)),
)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the rows of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, lambda x: torch.softmax(x, -1), extent)
