"""Say what ``bench`` times of ``attention``: vision transformers, an encoder of text, and long sequences."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

# Images or sequences, queries, keys, heads, elements.
SIZES = (
    Rows("ViT-Ti, 1 image", (1, 197, 197, 3, 64)),
    Rows("ViT-Ti, 32 images", (32, 197, 197, 3, 64)),
    Rows("ViT-B, 1 image", (1, 197, 197, 12, 64)),
    Rows("ViT-B, 32 images", (32, 197, 197, 12, 64)),
    Rows("128 words, 32 texts", (32, 128, 128, 4, 64)),
    Rows("512 words, 8 texts", (8, 512, 512, 12, 64)),
    Rows("2048 words, 1 text", (1, 2048, 2048, 16, 128)),
    # SigLIP, and Stable Diffusion 1.5: its pixels, and the words that these attend to.
    Rows("729 patches, 32 images", (32, 729, 729, 16, 72)),
    Rows("64x64 pixels, 1 image", (1, 4096, 4096, 8, 40)),
    Rows("32x32 pixels, 8 images", (8, 1024, 1024, 8, 80)),
    Rows("64x64 pixels and 77 words, 8 images", (8, 4096, 77, 8, 40)),
)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=0.125).transpose(1, 2)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, attention, extent)
