"""Say what ``bench`` times of ``normed_rotary_attention``: the attention of Qwen3-0.6B, with causal masks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import rms_norm

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..rotary_attention.workloads import CAUSAL, TOLD, attention
from . import KERNEL

# Sequences, masks, tokens, heads of keys, elements; heads and queries of the mask.
SIZES = (
    Rows("16 heads, 8 of keys, 1 text", (1, 1, 128, 8, 128, 1, 128), {"repeats": 2}, CAUSAL),
    Rows("16 heads, 8 of keys, 32 texts", (32, 1, 128, 8, 128, 1, 128), {"repeats": 2}, CAUSAL),
    Rows("16 heads, 8 of keys, 1 long text", (1, 1, 2048, 8, 128, 1, 2048), {"repeats": 2}, CAUSAL),
)


def normed_attention(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor | None,
    query_scale: torch.Tensor,
    key_scale: torch.Tensor,
    repeats: int,
) -> torch.Tensor:
    """Compute the attention with a mask, or with a causal one that torch knows of."""
    n, b, t, _, g, d = x.shape
    every = x.reshape(n, b, t, -1, d)
    q, k, v = every.split([repeats * g, g, g], dim=3)
    q, k = rms_norm(q, (d,), query_scale, 1e-6), rms_norm(k, (d,), key_scale, 1e-6)
    return attention(torch.cat([q, k, v], dim=3).reshape(x.shape), cos, sin, mask, repeats)


def causal(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    _: torch.Tensor,
    query_scale: torch.Tensor,
    key_scale: torch.Tensor,
    repeats: int,
) -> torch.Tensor:
    """Compute the same without reading the mask."""
    return normed_attention(x, cos, sin, None, query_scale, key_scale, repeats)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the attention of each length, beside torch."""
    yield from row_workloads(KERNEL, SIZES, normed_attention, extent, {TOLD: causal})
