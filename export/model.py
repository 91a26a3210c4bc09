"""Define LeNet-5 as a torch module, built from the declared geometry (imports torch)."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from lenet_trt.export.geometry import LENET5, Conv, Flatten, Lenet5Layer, Linear, MaxPool


class LeNet5(nn.Sequential):
    """Compute the network of the write-ups; the parameters have torch's default initialisation.

    Shapes: images [n, 1, 28, 28] float32 in [0, 1] -> logits [n, 10] float32.
    """

    def __init__(self) -> None:
        super().__init__(OrderedDict((layer.name, _module(layer)) for layer in LENET5))


def _module(layer: Lenet5Layer) -> nn.Module:
    if isinstance(layer, Conv):
        return nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel)
    if isinstance(layer, Linear):
        return nn.Linear(layer.in_features, layer.out_features)
    if isinstance(layer, MaxPool):
        return nn.MaxPool2d(layer.window)
    if isinstance(layer, Flatten):
        return nn.Flatten()
    return nn.ReLU()


def lenet5_from_weights(weights: dict[str, torch.Tensor]) -> LeNet5:
    """Return LeNet-5 in evaluation mode with these parameters (names and shapes as in the geometry)."""
    network = LeNet5()
    network.load_state_dict(weights)
    return network.eval()
