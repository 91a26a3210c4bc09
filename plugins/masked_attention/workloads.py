"""Say what ``bench`` times of ``masked_attention``: the windows of a Swin, and padded sequences."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

# The images or windows that the mask has, those it is repeated over, and those after; queries, keys, heads, elements;
# heads and queries of the mask.
SIZES = (
    Rows("Swin-T, first stage, 1 image", (1, 64, 1, 49, 49, 3, 32, 3, 49)),
    Rows("Swin-T, first stage, 32 images", (1, 2048, 1, 49, 49, 3, 32, 3, 49)),
    Rows("Swin-T, shifted windows, 32 images", (1, 32, 64, 49, 49, 3, 32, 3, 49)),
    Rows("Swin-T, third stage, 32 images", (1, 128, 1, 49, 49, 12, 32, 12, 49)),
    Rows("512 words with padding, 8 texts", (8, 1, 1, 512, 512, 12, 64, 1, 1)),
)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, scale=0.125).transpose(-2, -3)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, attention, extent)
