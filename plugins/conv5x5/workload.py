"""Make a workload of the convolution of the write-ups, the Conv case of ``lenet_trt.export``."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench import peers
from lenet_trt.bench.layers import LAUNCHES, PRECISIONS, Layer, layer_workload
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.export.cases import CONV_BATCH, ConvCase
from lenet_trt.export.geometry import IMAGE_SHAPE

CASE = ConvCase()


def convolution_workloads(kernel: str, label: str, function: peers.TorchFunction, extent: Extent) -> Iterator[Workload]:
    """Yield the convolution in every precision; ``function`` is the same in torch, ``label`` names what follows."""
    size = "x".join(map(str, (CONV_BATCH, *IMAGE_SHAPE)))
    layer = Layer(label, kernel, CASE.axes, function)
    for precision in PRECISIONS:
        title = f"Conv {size}, {CASE.filters} filters 5x5, {label}, {precision}"
        tail = [
            peers.direct("cuDNN through torch", function, LAUNCHES),
            peers.compiled("torch.compile", function, LAUNCHES, autotune=not extent.quick),
        ]
        yield layer_workload("conv", layer, CONV_BATCH, precision, f"{kernel} {precision}", title, tail, LAUNCHES)
