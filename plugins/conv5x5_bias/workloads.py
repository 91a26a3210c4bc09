"""Say what ``bench`` times of ``conv5x5_bias``: the convolution of the write-ups."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..conv5x5.workload import convolution_workloads


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the convolution with bias."""
    yield from convolution_workloads("conv5x5_bias", "bias", F.conv2d, extent)
