"""What ``bench`` times of ``dense_bias_relu``: the linear layers of LeNet-5."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

NAME = "dense_bias_relu"
LAYERS = (
    Layer("fc1", NAME, {"in": 256, "out": 120}, lambda *t: F.relu(F.linear(*t)), {"relu": 1}),
    Layer("fc2", NAME, {"in": 120, "out": 84}, lambda *t: F.relu(F.linear(*t)), {"relu": 1}),
    Layer("fc3", NAME, {"in": 84, "out": 10}, lambda *t: F.linear(*t), {"relu": 0}),
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield each layer alone, beside torch."""
    yield from each_alone(LAYERS, extent)
