"""Say what ``bench`` times of ``self_attention``: vision transformers and an encoder of text."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

# Images or sequences, rows of windows, rows of tokens, windows in a row, columns of tokens, heads, elements.
SIZES = (
    Rows("ViT-Ti, 1 image", (1, 1, 197, 1, 1, 3, 64)),
    Rows("ViT-Ti, 32 images", (32, 1, 197, 1, 1, 3, 64)),
    Rows("ViT-Ti, 32 images, tokens first", (1, 1, 197, 32, 1, 3, 64)),
    Rows("ViT-B, 1 image", (1, 1, 197, 1, 1, 12, 64)),
    Rows("128 words, 1 text", (1, 1, 128, 1, 1, 4, 64)),
    Rows("128 words, 32 texts", (32, 1, 128, 1, 1, 4, 64)),
)


def attention(x: torch.Tensor, *masks: torch.Tensor, shift: int = 0) -> torch.Tensor:
    """Compute the attention in torch, with the transpositions that this takes; a mask has the windows of one image."""
    n, a, r, b, c, _, h, d = x.shape
    if shift:
        x = torch.roll(x.reshape(n, a * r, b * c, 3, h, d), (-shift, -shift), (1, 2)).view(x.shape)
    q, k, v = x.permute(5, 0, 1, 3, 6, 2, 4, 7).reshape(3, n, a * b, h, r * c, d)
    mask = masks[0] if masks else None
    y = F.scaled_dot_product_attention(q, k, v, mask, scale=0.125)
    y = y.view(n, a, b, h, r, c, d).permute(0, 1, 4, 2, 5, 3, 6).reshape(n, a * r, b * c, h, d)
    return (torch.roll(y, (shift, shift), (1, 2)) if shift else y).view(n, a, r, b, c, h, d)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, attention, extent)
