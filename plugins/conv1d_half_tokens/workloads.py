"""Say what ``bench`` times of ``conv1d_half_tokens``: the convolution before the tokens of an encoder of speech."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench.layers import each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..conv1d_half.workloads import layer

LAYERS = (layer("conv1d_half_tokens", 384, 3000, 384, 2), layer("conv1d_half_tokens", 768, 3000, 768, 2))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch."""
    yield from each_alone(LAYERS, extent)
