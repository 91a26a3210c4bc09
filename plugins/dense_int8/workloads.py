"""Say what ``bench`` times of ``dense_int8``: layers as large as LeNet-5 has and a transformer, few and many rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench import ours, peers
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL

SIZES = ((256, 120), (1024, 1024), (4096, 4096))
ROWS = (1, 32, 1024)
X_SCALE, Y_SCALE = 0.05, 0.1


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield each size with ReLU. Peers compute it in fp16: torch has no product of integers that scales and rounds."""
    types = KERNEL.types_named("int8")
    for inputs, outputs in SIZES:
        matrix = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8)
        scale = torch.full((outputs,), 0.5 / inputs**0.5 / 1000)
        bias = torch.randn(outputs) / 100
        weights = {
            "x_scale": torch.tensor(X_SCALE),
            "w": matrix,
            "w_scale": scale,
            "bias": bias,
            "y_scale": torch.tensor(Y_SCALE),
        }
        exact = (matrix.double() * scale.double()[:, None]).cuda(), bias.double().cuda()
        half = exact[0].half(), bias.half().cuda()

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

            yield Workload(
                section="dense_int8",
                name=f"dense int8 {n}x{inputs}x{outputs}",
                title=f"Dense layer, int8, {n} x {inputs} to {outputs}",
                axes=bound.axes,
                precision="int8",
                work=ours.call_work(bound),
                draw=draw,
                reference=reference,
                contenders=[*ours.contenders(bound, weights, ("graph",)), *others],
                mode="graph",
                launch_counts=True,
                kernel=KERNEL.name,
                weights=weights,
            )
