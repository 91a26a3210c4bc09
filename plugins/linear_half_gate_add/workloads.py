"""Say what ``bench`` times of ``linear_half_gate_add``: two layers of DiT-XL/2."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

SIZES = ((1152, 1152), (4608, 1152))
PARTS, GATE = 6, 2


def layer_gate_and_sum(
    x: torch.Tensor, other: torch.Tensor, gate: torch.Tensor, w: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Compute the layer of each token, let it through the gate of its image, and add."""
    return gate[:, GATE, None] * F.linear(x, w, bias) + other


def layer(inputs: int, outputs: int) -> Layer:
    """Return a layer of 256 tokens an image."""
    name = f"linear {inputs} to {outputs}, a gate and a residual"
    axes = {"t": 256, "gates": PARTS, "in": inputs, "out": outputs}
    return Layer(name, "linear_half_gate_add", axes, layer_gate_and_sum, {"activation": "none", "gate_part": GATE})


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
