"""Say what ``bench`` times of ``maxpool2``: the first pool of LeNet-5."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.export.geometry import input_shapes

_C, _H, _W = input_shapes()["pool1"]
LAYERS = (Layer("maxpool 2x2", "maxpool2", {"c": _C, "h": _H, "w": _W}, lambda x: F.max_pool2d(x, 2)),)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the pool alone, beside torch."""
    yield from each_alone(LAYERS, extent)
