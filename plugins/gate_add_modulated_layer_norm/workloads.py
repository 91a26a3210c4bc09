"""Say what ``bench`` times of ``gate_add_modulated_layer_norm``: the tokens of ``modulated_layer_norm``."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench.rows import Rows, row_workloads
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..modulated_layer_norm.workloads import PARTS, TOKENS, WIDTH, modulated
from . import KERNEL

WHICH = {"factor_part": 4, "shift_part": 3, "gate_part": 2}
SIZES = tuple(Rows(name, (*tokens, PARTS, PARTS, PARTS, WIDTH), WHICH) for name, tokens in TOKENS.items())


def after_gate(
    x: torch.Tensor, other: torch.Tensor, gate: torch.Tensor, *of_norm: torch.Tensor, gate_part: int, **which: int
) -> tuple[torch.Tensor, torch.Tensor]:
    total = gate[:, gate_part, None] * x + other
    return modulated(total, *of_norm, **which), total


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the tokens of each network, beside torch."""
    yield from row_workloads(KERNEL, SIZES, after_gate, extent)
