"""Say what ``bench`` times of ``lstm``: layers that tag frames of sound and words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

BOTH = {"direction": "bidirectional"}
SIZES = (
    Rows("64 frames of sound", (64, 1, 40, 2), {"hidden_size": 128, **BOTH}),
    Rows("64 frames of sound, 32 at once", (64, 32, 40, 2), {"hidden_size": 128, **BOTH}),
    Rows("64 frames of sound, 256 at once", (64, 256, 40, 2), {"hidden_size": 128, **BOTH}),
    Rows("100 steps of a sensor", (100, 1, 16, 1), {"hidden_size": 64, "direction": "forward"}),
    Rows("20 words", (20, 32, 300, 2), {"hidden_size": 256, **BOTH}),
)


@lru_cache(maxsize=8)
def _in_order(*weights: torch.Tensor) -> list[torch.Tensor]:
    """Return the weights of each direction as torch has them: input, forget, cell, output."""
    flat = []
    for w, r, b in zip(*weights, strict=True):
        for tensor in (w, r, *b.chunk(2)):
            i, o, f, c = tensor.chunk(4)
            flat.append(torch.cat([i, f, c, o]).contiguous())
    return flat


def layer(
    x: torch.Tensor,
    h0: torch.Tensor,
    c0: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor,
    hidden_size: int,
    direction: str,
) -> torch.Tensor:
    """Compute the states of all steps by torch, and by cuDNN in it; not in the direction "reverse"."""
    weights = _in_order(w, r, b)
    y = torch.lstm(x, (h0, c0), weights, True, 1, 0.0, False, direction == "bidirectional", False)[0]
    return y.unflatten(2, (len(w), hidden_size)).transpose(1, 2)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from row_workloads(KERNEL, SIZES, layer, extent)
