"""Convolutions along one axis in 16 bits: where channels-last kernels are taken, and what is between them."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from layered_model import LayeredModel, fused_like_plain, operators_of
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes

PLAIN, TOKENS, DENSE = "conv1d_half", "conv1d_half_tokens", "linear_half"
CHANNELS, STEPS, FILTERS = 16, 42, 32


class Sequences(LayeredModel):
    """Add layers of sequences."""

    def __init__(self, sequences: Any = 2, channels: int = CHANNELS, steps: int = STEPS, opset: int = 17) -> None:
        super().__init__(sequences, channels, steps, opset=opset)

    def layer(self, x: str, filters: int = FILTERS, taps: int = 3, **more: Any) -> str:
        """Add a convolution along the steps."""
        return self.conv(x, filters, taps, **more)

    def dense(self, x: str) -> str:
        """Add a dense layer of tokens, and its GELU."""
        product = self.node("MatMul", x, self.constant(self.channels, self.channels))
        return self.gelu(self.node("Add", product, self.constant(self.channels)))


def stem(layers: int, filters: int = FILTERS, **sizes: Any) -> onnx.ModelProto:
    """Return the layers that an encoder of speech begins with, as in Whisper, and dense layers of its tokens."""
    model = Sequences(**sizes)
    y = model.gelu(model.layer("x", filters, pads=[1, 1]))
    y = model.gelu(model.layer(y, filters, strides=[2], pads=[1, 1]))
    y = model.node("Transpose", y, perm=[0, 2, 1])
    for _ in range(layers):
        y = model.dense(y)
    return model.finished(y)


def one_layer(channels: int = CHANNELS, **changed: Any) -> onnx.ModelProto:
    model = Sequences(channels=channels)
    return model.finished(model.layer("x", **changed))


def alike(model: onnx.ModelProto, *names: str) -> list[str]:
    """Return the operators of the model with these plugins, which computes the same."""
    return operators_of(fused_like_plain(model, *names))


@pytest.mark.parametrize("opset", [14, 17, 20])
@pytest.mark.parametrize("sequences", [3, "n"])
def test_a_stem_is_two_kernels_and_nothing_between(opset: int, sequences: Any) -> None:
    operators = alike(stem(2, sequences=sequences, opset=opset), PLAIN, TOKENS, DENSE)
    assert operators == ["Reshape", PLAIN, TOKENS, "Reshape", DENSE, DENSE, "Reshape"]


def test_the_channels_of_whisper_are_taken() -> None:
    operators = alike(stem(1, 384, channels=80, steps=60), PLAIN, TOKENS, DENSE)
    assert operators == ["Reshape", PLAIN, TOKENS, "Reshape", DENSE, "Reshape"]


@pytest.mark.parametrize(
    "changed",
    [
        {"taps": 1},
        {"pads": [1, 1], "bias": False},
        {"taps": 4, "strides": [2], "pads": [1, 1]},
        {"taps": 9, "pads": [7, 7]},
        {"taps": 5, "strides": [2]},
    ],
    ids=str,
)
def test_filters_of_several_sizes_are_taken(changed: dict[str, Any]) -> None:
    assert alike(one_layer(**changed), PLAIN) == ["Reshape", PLAIN, "Reshape"]


@pytest.mark.parametrize("name", ["relu", "hardswish", "silu", "relu6", "gelu", "gelu_tanh"])
def test_the_activation_is_part_of_the_kernel(name: str) -> None:
    model = Sequences(opset=20)
    y = model.activation(name, model.layer("x"))
    assert alike(model.finished(y), PLAIN) == ["Reshape", PLAIN, "Reshape"]


def test_layers_of_several_sizes_share_a_function() -> None:
    model = Sequences()
    y = model.node("Relu", model.layer("x", 40, pads=[1, 1]))
    y = model.node("Relu", model.layer(y, FILTERS, pads=[1, 1]))
    y = model.gelu(model.layer(y, 48, taps=5, strides=[2]))
    assert alike(model.finished(y), PLAIN) == ["Reshape", PLAIN, PLAIN, PLAIN, "Reshape"]


@pytest.mark.parametrize(
    "changed",
    [
        {"dilations": [2]},
        {"group": 2},
        {"strides": [3]},
        {"taps": 10},
        {"channels": 12},
        {"filters": 36},
        {"filters": 24},
        {"pads": [1, 0]},
        {"pads": [0, 1]},
    ],
    ids=str,
)
def test_what_the_kernel_does_not_compute_stays_as_it_is(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(one_layer(**changed), [PLAIN])


def test_images_of_one_row_are_no_sequences() -> None:
    model = Sequences()
    row = model.constant(FILTERS, CHANNELS, 1, 3)
    model.x.insert(2, 1)
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model.finished(model.node("Conv", "x", row, kernel_shape=[1, 3])), [PLAIN])


@pytest.mark.parametrize("perm", [[0, 2, 1], [1, 0, 2], [2, 0, 1]], ids=str)
def test_tokens_are_channels_behind_steps(perm: list[int]) -> None:
    layers = Sequences()
    model = layers.finished(layers.node("Transpose", layers.node("Relu", layers.layer("x")), perm=perm))
    if perm == [0, 2, 1]:
        assert alike(model, TOKENS) == ["Reshape", TOKENS]
    else:
        assert alike(model, PLAIN) == ["Reshape", PLAIN, "Reshape", "Transpose"]
        with pytest.raises(LenetTrtError, match="the network has no place for it"):
            fuse(model, [TOKENS])


def test_maps_that_are_read_as_well_are_no_tokens() -> None:
    layers = Sequences()
    maps = layers.node("Relu", layers.layer("x"))
    tokens = layers.node("Transpose", maps, perm=[0, 2, 1])
    model = layers.finished(layers.node("MatMul", tokens, maps))
    with pytest.raises(LenetTrtError, match="is also used by"):
        fuse(model, [TOKENS])
    assert alike(model, PLAIN) == ["Reshape", PLAIN, "Reshape", "Transpose", "MatMul"]


@pytest.mark.parametrize(
    ("sequences", "steps", "sm", "taken"),
    [
        (1, 3000, 90, [PLAIN, TOKENS]),
        (1, 3000, 89, []),
        (1, 1500, 90, [TOKENS]),  # the first layer has too little work
        (1, 600, 90, []),
        (2, 2999, 90, [PLAIN]),
    ],
)
def test_auto_takes_layers_with_enough_work_on_hopper(sequences: int, steps: int, sm: int, taken: list[str]) -> None:
    model = stem(0, 384, sequences=sequences, channels=80, steps=steps)
    assert list(plugin_nodes(fuse(model, architectures=[sm]).model).values()) == taken


def test_auto_leaves_few_filters_however_much_work_they_have() -> None:
    model = stem(0, 64, sequences=64, channels=80, steps=3000)
    assert not plugin_nodes(fuse(model, architectures=[90]).model)
