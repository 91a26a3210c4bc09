"""The convolution of the write-ups as a workload: 10,000 images of 28x28 through 50 filters."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench import peers
from lenet_trt.bench.layers import LAUNCHES, PRECISIONS, Layer, layer_workload
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

IMAGES = 10_000
AXES = {"c": 1, "h": 28, "w": 28, "k": 50}


def convolution_workloads(kernel: str, label: str, function: peers.TorchFunction, extent: Extent) -> Iterator[Workload]:
    """Yield the convolution in every precision; ``function`` is the same in torch, ``label`` names what follows."""
    layer = Layer(label, kernel, AXES, function)
    for precision in PRECISIONS:
        title = f"Conv {IMAGES}x1x28x28, 50 filters 5x5, {label}, {precision}"
        tail = [
            peers.direct("cuDNN through torch", function, LAUNCHES),
            peers.compiled("torch.compile", function, LAUNCHES, autotune=not extent.quick),
        ]
        yield layer_workload("conv", layer, IMAGES, precision, f"{kernel} {precision}", title, tail, LAUNCHES)
