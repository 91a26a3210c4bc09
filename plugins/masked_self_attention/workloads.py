"""Say what ``bench`` times of ``masked_self_attention``: windows of a Swin, and long texts."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench.rows import Rows, causal_mask, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..self_attention.workloads import attention
from . import KERNEL

# Images, rows of windows, rows of tokens, windows in a row, columns of tokens, heads, elements; windows, heads and
# queries of the mask.
SIZES = (
    Rows("Swin-T, first stage, 1 image", (1, 8, 7, 8, 7, 3, 32, 1, 3, 49), {"shift": 0}),
    Rows("Swin-T, first stage, 32 images", (32, 8, 7, 8, 7, 3, 32, 1, 3, 49), {"shift": 0}),
    Rows("Swin-T, shifted windows, 32 images", (32, 8, 7, 8, 7, 3, 32, 64, 3, 49), {"shift": 3}),
    Rows("Swin-T, third stage, 1 image", (1, 2, 7, 2, 7, 12, 32, 1, 12, 49), {"shift": 0}),
    Rows("Swin-T, third stage, 32 images", (32, 2, 7, 2, 7, 12, 32, 1, 12, 49), {"shift": 0}),
    Rows("GPT-2, 8 texts of 1,024 words", (8, 1, 1024, 1, 1, 12, 64, 1, 1, 1024), {"shift": 0}, {"mask": causal_mask}),
)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, attention, extent)
