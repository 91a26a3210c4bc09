"""Say what ``bench`` times of ``conv_int8``: the convolutions of LeNet-5 with ReLU and pool, and one of 3x3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench import peers
from lenet_trt.bench.quantized import X_SCALE, Y_SCALE, quantized_weights, quantized_workload
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL


@dataclass(frozen=True)
class Layer:
    """Describe a convolution with ReLU; ``pool`` is 2 or, without a pool, 1."""

    name: str
    channels: int
    side: int
    filters: int
    size: int
    pad: int
    pool: int

    @property
    def axes(self) -> Mapping[str, int]:
        """Return the kernel's static axes."""
        return {"h": self.side, "w": self.side, "c": self.channels, "k": self.filters}

    @property
    def attributes(self) -> Mapping[str, int]:
        """Return the kernel's attributes."""
        return {"relu": 1, "pool": self.pool, "size": self.size, "stride": 1, "pad": self.pad}


def computed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int, pool: int) -> torch.Tensor:
    """Compute a layer in the type of the weights, and round to int8."""
    y = F.relu(F.conv2d(x.to(weight.dtype) * X_SCALE, weight, bias, padding=pad))
    y = F.max_pool2d(y, 2) if pool == 2 else y
    return (y / Y_SCALE).round().clamp(0, 127).to(torch.int8)


_CONVOLUTIONS = (
    Layer("conv1 of LeNet-5", 1, 28, 6, 5, 0, 2),
    Layer("conv2 of LeNet-5", 6, 12, 16, 5, 0, 2),
    Layer("16 channels of 28x28, 3x3", 16, 28, 16, 3, 1, 1),
)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield each layer. Peers compute it in fp16: torch has no convolution of integers on a GPU."""
    types = KERNEL.types_named("int8")
    for layer in _CONVOLUTIONS:
        products = layer.channels * layer.size**2
        shape = layer.filters, layer.channels, layer.size, layer.size
        weights = quantized_weights(shape, 0.5 / products**0.5 / 30)
        exact, half = (weights.w, weights.bias), (weights.w.half(), weights.bias.half())

        how = layer.pad, layer.pool

        def in_half(
            x: torch.Tensor,
            half: tuple[torch.Tensor, torch.Tensor] = half,
            how: tuple[int, int] = how,
        ) -> torch.Tensor:
            return computed(x, *half, *how)

        def reference(
            inputs: Inputs,
            exact: tuple[torch.Tensor, torch.Tensor] = exact,
            how: tuple[int, int] = how,
        ) -> torch.Tensor:
            return computed(inputs[0], *exact, *how).double()

        others = peers.network_peers(in_half, autotune=not extent.quick)
        for n in extent.batches:
            bound = KERNEL.bind_axes({"n": n, **layer.axes}, types, layer.attributes)

            def draw(shape: tuple[int, ...] = bound.input_shapes[0]) -> Inputs:
                return (torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda"),)

            name = f"conv int8 {layer.name} n={n}"
            title = f"Convolution in int8, {layer.name}, {n} image{'s' if n > 1 else ''}"
            yield quantized_workload(bound, name, title, draw, reference, weights.given, others)
