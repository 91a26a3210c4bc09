"""Say what ``bench`` times of ``rotary_attention``: the attention of three language models, with causal masks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import scaled_dot_product_attention

from lenet_trt.bench.rows import Rows, causal_mask, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

CAUSAL = {"mask": causal_mask}
TOLD = "told that the mask is causal"
# Sequences, masks, tokens, heads of keys, elements; heads and queries of the mask.
SIZES = (
    Rows("12 heads, 4 of keys, 1 text", (1, 1, 128, 4, 64, 1, 128), {"repeats": 3}, CAUSAL),
    Rows("12 heads, 4 of keys, 32 texts", (32, 1, 128, 4, 64, 1, 128), {"repeats": 3}, CAUSAL),
    Rows("32 heads, 8 of keys, 1 text", (1, 1, 2048, 8, 128, 1, 2048), {"repeats": 4}, CAUSAL),
    Rows("32 heads, 8 of keys, 1 longer text", (1, 1, 8192, 8, 128, 1, 8192), {"repeats": 4}, CAUSAL),
)


def attention(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor | None, repeats: int
) -> torch.Tensor:
    """Compute the attention with a mask, or with a causal one that torch knows of."""
    n, b, t, _, g, d = x.shape
    q, k, v = x.reshape(n * b, t, -1, d).transpose(1, 2).split([repeats * g, g, g], dim=1)
    q, k = (_rotated(each, cos, sin) for each in (q, k))
    y = scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=0.125, enable_gqa=True)
    return y.transpose(1, 2).reshape(n, b, t, repeats, g, d)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    (a, b), c, s = x.chunk(2, dim=-1), cos.chunk(2, dim=-1)[0], sin.chunk(2, dim=-1)[0]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def causal(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, _: torch.Tensor, repeats: int) -> torch.Tensor:
    """Compute the same without reading the mask, as torch can where it is told that the mask is causal."""
    return attention(x, cos, sin, None, repeats)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, attention, extent, {TOLD: causal})
