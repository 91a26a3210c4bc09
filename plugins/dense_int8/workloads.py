"""Say what ``bench`` times of ``dense_int8``: layers as large as LeNet-5 has and a transformer, few and many rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench import peers
from lenet_trt.bench.quantized import X_SCALE, Y_SCALE, quantized_weights, quantized_workload
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = ((256, 120), (1024, 1024), (4096, 4096))
ROWS = (1, 32, 1024)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield each size with ReLU. Peers compute it in fp16: torch has no product of integers that scales and rounds."""
    types = KERNEL.types_named("int8")
    for inputs, outputs in SIZES:
        weights = quantized_weights((outputs, inputs), 0.5 / inputs**0.5 / 1000)
        exact, half = (weights.w, weights.bias), (weights.w.half(), weights.bias.half())

        def layer(x: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            y = F.relu(F.linear(x * X_SCALE, matrix, bias)) / Y_SCALE
            return y.round().clamp(0, 127).to(torch.int8)

        def in_half(x: torch.Tensor, half: tuple[torch.Tensor, torch.Tensor] = half) -> torch.Tensor:
            return layer(x.half(), *half)

        def reference(inputs: Inputs, exact: tuple[torch.Tensor, torch.Tensor] = exact) -> torch.Tensor:
            return layer(inputs[0].double(), *exact).double()

        others = peers.network_peers(in_half, autotune=not extent.quick)
        for n in ROWS:
            bound = KERNEL.bind_axes({"n": n, "in": inputs, "out": outputs}, types, {"relu": 1})

            def draw(n: int = n, inputs: int = inputs) -> Inputs:
                return (torch.randint(-128, 128, (n, inputs), dtype=torch.int8, device="cuda"),)

            name, title = f"dense int8 {n}x{inputs}x{outputs}", f"Dense layer, int8, {n} x {inputs} to {outputs}"
            yield quantized_workload(bound, name, title, draw, reference, weights.given, others)
