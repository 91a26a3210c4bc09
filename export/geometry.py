"""Define LeNet-5: its layers, parameters and shapes, without torch.

This module is the only owner of the geometry. The torch network, the exporter and the tests read it from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

LayerShape: TypeAlias = tuple[int, ...]

INPUT = "images"
OUTPUT = "logits"
BATCH = "n"
CLASSES = 10
PIXEL_MAX = 255


@dataclass(frozen=True)
class Conv:
    """Describe a convolution with bias, stride 1 and no padding."""

    name: str
    in_channels: int
    out_channels: int
    kernel: int

    @property
    def weight_shape(self) -> LayerShape:
        return (self.out_channels, self.in_channels, self.kernel, self.kernel)

    @property
    def bias_shape(self) -> LayerShape:
        return (self.out_channels,)

    def output_shape(self, shape: LayerShape) -> LayerShape:
        _, height, width = shape
        return (self.out_channels, height - self.kernel + 1, width - self.kernel + 1)


@dataclass(frozen=True)
class Linear:
    """Describe a fully connected layer with bias; the weight is stored [out, in], as in torch."""

    name: str
    in_features: int
    out_features: int

    @property
    def weight_shape(self) -> LayerShape:
        return (self.out_features, self.in_features)

    @property
    def bias_shape(self) -> LayerShape:
        return (self.out_features,)

    def output_shape(self, shape: LayerShape) -> LayerShape:
        return (self.out_features,)


@dataclass(frozen=True)
class Relu:
    """Describe max(x, 0), element by element."""

    name: str

    def output_shape(self, shape: LayerShape) -> LayerShape:
        return shape


@dataclass(frozen=True)
class MaxPool:
    """Describe a max-pool with a square window and a stride of the window's size."""

    name: str
    window: int

    def output_shape(self, shape: LayerShape) -> LayerShape:
        channels, height, width = shape
        return (channels, height // self.window, width // self.window)


@dataclass(frozen=True)
class Flatten:
    """Describe the layer that turns [channels, height, width] into one row, channels slowest."""

    name: str

    def output_shape(self, shape: LayerShape) -> LayerShape:
        return (prod(shape),)


Lenet5Layer: TypeAlias = Conv | Linear | Relu | MaxPool | Flatten

IMAGE_SHAPE: LayerShape = (1, 28, 28)

LENET5: tuple[Lenet5Layer, ...] = (
    Conv("conv1", 1, 6, 5),
    Relu("relu1"),
    MaxPool("pool1", 2),
    Conv("conv2", 6, 16, 5),
    Relu("relu2"),
    MaxPool("pool2", 2),
    Flatten("flatten"),
    Linear("fc1", 256, 120),
    Relu("relu3"),
    Linear("fc2", 120, 84),
    Relu("relu4"),
    Linear("fc3", 84, CLASSES),
)


def layer_shapes() -> dict[str, LayerShape]:
    """Return the shape of each layer's output, by layer name, without the batch axis."""
    shapes: dict[str, LayerShape] = {}
    shape = IMAGE_SHAPE
    for layer in LENET5:
        shape = layer.output_shape(shape)
        shapes[layer.name] = shape
    return shapes


def input_shapes() -> dict[str, LayerShape]:
    """Return the shape of each layer's input, by layer name, without the batch axis."""
    names, outputs = [layer.name for layer in LENET5], list(layer_shapes().values())
    return dict(zip(names, [IMAGE_SHAPE, *outputs[:-1]], strict=True))


def parameter_shapes() -> dict[str, LayerShape]:
    """Return the shapes of the trained tensors, by torch name (`conv1.weight`, `conv1.bias`, ...)."""
    shapes: dict[str, LayerShape] = {}
    for layer in LENET5:
        if isinstance(layer, (Conv, Linear)):
            shapes[f"{layer.name}.weight"] = layer.weight_shape
            shapes[f"{layer.name}.bias"] = layer.bias_shape
    return shapes


def flops_per_image() -> int:
    """Count the operations of one image: a multiplication and an addition for each use of each weight."""
    shapes, total = layer_shapes(), 0
    for layer in LENET5:
        if isinstance(layer, (Conv, Linear)):
            places = prod(shapes[layer.name][1:])  # where the window is applied; one for a linear layer
            total += 2 * prod(layer.weight_shape) * places
    return total
