"""Say what ``bench`` times of ``dense_bias_relu``: the linear layers of LeNet-5."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.export.geometry import LENET5, Linear, Relu

NAME = "dense_bias_relu"


def _layer(linear: Linear, relu: bool) -> Layer:
    """Describe a linear layer of the network, with the ReLU after it or without."""
    axes = {"in": linear.in_features, "out": linear.out_features}
    return Layer(linear.name, NAME, axes, _linear_relu if relu else F.linear, {"relu": int(relu)})


def _linear_relu(*tensors: torch.Tensor) -> torch.Tensor:
    return F.relu(F.linear(*tensors))


LAYERS = tuple(
    _layer(layer, isinstance(after, Relu))
    for layer, after in zip_longest(LENET5, LENET5[1:])
    if isinstance(layer, Linear)
)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield each layer alone, beside torch."""
    yield from each_alone(LAYERS, extent)
