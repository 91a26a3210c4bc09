"""Say what ``bench`` times of the modulated layer norms: those of diffusion transformers, beside torch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

WIDTH, PARTS = 1152, 6
TOKENS = {"DiT-XL/2, 1 image": (1, 256), "DiT-XL/2, 32 images": (32, 256), "PixArt at 1024 pixels": (2, 4096)}
SIZES = tuple(
    Rows(name, (*tokens, PARTS, PARTS, WIDTH), {"factor_part": 1, "shift_part": 0}) for name, tokens in TOKENS.items()
)


def modulated(
    x: torch.Tensor,
    factor: torch.Tensor,
    shift: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor,
    *,
    factor_part: int,
    shift_part: int,
) -> torch.Tensor:
    norm = torch.nn.functional.layer_norm(x, scale.shape, scale, bias, 1e-5)
    return norm * (1 + factor[:, factor_part, None]) + shift[:, shift_part, None]


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the tokens of each network."""
    yield from row_workloads(KERNEL, SIZES, modulated, extent)
