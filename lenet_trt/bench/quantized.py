"""Make workloads of kernels between Q/DQ: in int8, in a CUDA graph, beside peers that compute in floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from lenet_trt.bench import ours
from lenet_trt.bench.workload import Contender, Inputs, Workload
from lenet_trt.kernel.bind import Bound

X_SCALE, Y_SCALE = 0.05, 0.1


@dataclass(frozen=True)
class QuantizedWeights:
    """Hold the weights of a layer: ``given`` to the kernel, and in float64 on the GPU what they stand for."""

    given: Mapping[str, torch.Tensor]
    w: torch.Tensor
    bias: torch.Tensor


def quantized_weights(shape: Sequence[int], scale: float) -> QuantizedWeights:
    """Draw weights of int8 [outputs, ...] with one scale, and biases."""
    outputs = shape[0]
    w = torch.randint(-128, 128, tuple(shape), dtype=torch.int8)
    w_scale, bias = torch.full((outputs,), scale), torch.randn(outputs) / 100
    given = {
        "x_scale": torch.tensor(X_SCALE),
        "w": w,
        "w_scale": w_scale,
        "bias": bias,
        "y_scale": torch.tensor(Y_SCALE),
    }
    each = w_scale.double().reshape(-1, *[1] * (len(shape) - 1))
    return QuantizedWeights(given, (w.double() * each).cuda(), bias.double().cuda())


def quantized_workload(
    bound: Bound,
    name: str,
    title: str,
    draw: Callable[[], Inputs],
    reference: Callable[[Inputs], torch.Tensor],
    weights: Mapping[str, torch.Tensor],
    others: Sequence[Contender],
    checked: Inputs | None = None,
    labels: torch.Tensor | None = None,
) -> Workload:
    """Make the workload of a call; ``others`` are functions of the inputs, the rest is as in ``Workload``."""
    return Workload(
        section=bound.kernel.name,
        name=name,
        title=title,
        axes=bound.axes,
        precision="int8",
        work=ours.call_work(bound),
        draw=draw,
        reference=reference,
        contenders=[*ours.contenders(bound, weights, ("graph",)), *others],
        mode="graph",
        launch_counts=True,
        kernel=bound.kernel.name,
        weights=weights,
        checked=checked,
        labels=labels,
    )
