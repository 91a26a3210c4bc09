"""Say what ``bench`` times of ``conv1d_half``: the first layers of encoders of speech."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel import AttributeValue


def layer(kernel: str, channels: int, steps: int, filters: int, stride: int) -> Layer:
    """Return a layer of three taps with its GELU, of sequences as images of one row."""
    tokens = kernel.endswith("_tokens")

    def convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = F.gelu(F.conv1d(x[:, :, 0], w, bias, stride=stride, padding=1))
        return y.transpose(1, 2) if tokens else y[:, :, None]

    attributes: dict[str, AttributeValue] = {"activation": "gelu", "size": 3, "stride": stride, "pad": 1}
    name = f"channels last along time, {channels} of {steps} to {filters}, stride {stride}"
    axes = {"c": channels, "w": steps, "k": filters}
    return Layer(f"{name}, tokens" if tokens else name, kernel, axes, convolution, attributes)


LAYERS = (
    layer("conv1d_half", 80, 3000, 384, 1),
    layer("conv1d_half", 384, 3000, 384, 2),
    layer("conv1d_half", 80, 3000, 768, 1),
    layer("conv1d_half", 768, 3000, 768, 2),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
