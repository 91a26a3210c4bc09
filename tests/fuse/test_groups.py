"""In 16 bits convolutions are plugins in groups of plugins, and TensorRT's elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx
import pytest
from onnx import helper

from layered_model import LayeredModel, fused_like_plain
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes

CHANNELS, SIDE = 16, 6
# Of images for which kernels with channels last are taken too, those of 1x1 filters beside plugins.
LARGE = {"n": 3, "channels": 32, "side": 56}
STEM, CONV3X3, PLAIN, ADDS = "conv7x7_pool3_half", "conv3x3_half", "conv1x1_half", "conv1x1_half_add"


class Model(LayeredModel):
    """Add layers of images, which keep their channels."""

    def __init__(self, side: int = SIDE, n: int = 2, channels: int = CHANNELS) -> None:
        super().__init__(n, channels, side, side)

    def layer(self, x: str, size: int = 1, group: int = 1, stride: int = 1) -> str:
        """Add a convolution with square filters."""
        sizes = {"pads": [size // 2] * 4, "strides": [stride] * 2}
        return self.conv(x, self.channels, size, size, group=group, **sizes)

    def block(self, x: str) -> str:
        """Add an inverted residual: three layers, the last of which adds the block's input."""
        y = self.node("Relu", self.layer(x))
        y = self.node("Relu", self.layer(y, size=3, group=self.channels))
        return self.node("Add", self.layer(y), x)


def taken(model: onnx.ModelProto, architectures: Sequence[int] = (90,)) -> Counter[str]:
    """Return the plugins that ``auto`` takes, with which the model computes the same."""
    return Counter(plugin_nodes(fused_like_plain(model, architectures=architectures)).values())


def test_a_network_of_plugins() -> None:
    model = Model()
    y = model.block(model.block("x"))
    assert taken(model.finished(y)) == {"pointwise_conv": 2, "depthwise_conv": 2, "pointwise_conv_add": 2}


def test_a_layer_before_and_one_after_a_group() -> None:
    model = Model()
    y = model.block(model.block(model.node("Abs", "x")))
    expected = {"pointwise_conv": 2, "depthwise_conv": 2, "pointwise_conv_add": 2}
    assert taken(model.finished(model.node("Abs", y))) == expected
    assert not taken(model.finished(model.node("Abs", y), model.node("Neg", y)))


@pytest.mark.parametrize("shared", [False, True])
def test_weights_that_nodes_give_are_no_layers(shared: bool) -> None:
    """Exporters write weights as ``Constant`` nodes, and equal ones as ``Identity`` of the first."""
    model = Model()
    y = model.block(model.block(model.node("Abs", "x")))
    plain = model.finished(model.node("Abs", y))
    tensors = list(plain.graph.initializer)
    del plain.graph.initializer[:]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors]
    if shared:
        biases = [tensor.name for tensor in tensors if len(tensor.dims) == 1]
        nodes = [each for each in nodes if each.output[0] not in biases[1:]]
        nodes += [helper.make_node("Identity", biases[:1], [name]) for name in biases[1:]]
    nodes += list(plain.graph.node)
    del plain.graph.node[:]
    plain.graph.node.extend(nodes)
    assert taken(plain) == {"pointwise_conv": 2, "depthwise_conv": 2, "pointwise_conv_add": 2}


def test_few_plugins_between_other_layers_stay() -> None:
    model = Model()
    y = model.node("Abs", model.block(model.node("Abs", "x")))
    assert not taken(model.finished(model.node("Abs", model.block(y))))


def test_a_convolution_of_tensorrt_parts_two_groups() -> None:
    model = Model()
    y = model.layer(model.block(model.block("x")), size=3)
    assert taken(model.finished(model.layer(model.layer(y)))) == {
        "pointwise_conv": 2,
        "depthwise_conv": 2,
        "pointwise_conv_add": 2,
    }


def test_a_plugin_with_channels_last_is_no_part_of_a_group() -> None:
    """TensorRT converts between its layout and theirs too."""
    model = Model(side=64)
    y = model.node("Relu", model.layer("x", size=3))
    for _ in range(3):
        y = model.node("Relu", model.layer(y, size=3, group=CHANNELS))
    y = model.node("Relu", model.layer(y, size=3))
    assert taken(model.finished(y)) == {"conv3x3_half": 2}


@pytest.mark.parametrize("architectures", [(86,), (86, 90), ()])
def test_gpus_on_which_groups_were_not_measured(architectures: Sequence[int]) -> None:
    model = Model()
    assert not taken(model.finished(model.block(model.block("x"))), architectures)


def test_what_is_left_is_told() -> None:
    model = Model()
    refused = fuse(model.finished(model.node("Abs", model.layer("x"))), "auto", (90,)).refusals
    assert [refusal.brief for refusal in refused if refusal.kernel == "pointwise_conv"] == [
        "auto takes pointwise_conv only among as many plugins as pay for conversions"
    ]


@pytest.mark.parametrize("attributes", [{"stride": 2}, {"group": 2}, {"size": 3}])
def test_what_is_no_pointwise_convolution(attributes: dict[str, int]) -> None:
    model = Model()
    fused = fuse(model.finished(model.layer("x", **attributes)), "all", (90,)).model
    assert "pointwise_conv" not in plugin_nodes(fused).values()


def places_of(model: onnx.ModelProto, *names: str) -> list[tuple[str, bool]]:
    """Return the places of kernels on Hopper, by kernel, and whether they are claimed."""
    places, _ = find_places(model, [registry.kernel(name) for name in names], [90])
    return sorted({(place.kernel.name, place.claimed) for place in places})


def test_a_kernel_with_channels_last_leaves_its_nodes_to_a_group() -> None:
    model = Model(**LARGE)
    chain = model.finished(model.block(model.block(model.layer("x", size=3))))
    assert places_of(chain, PLAIN, ADDS) == [(PLAIN, False), (ADDS, False)]
    assert taken(chain) == {CONV3X3: 1, "pointwise_conv": 2, "depthwise_conv": 2, "pointwise_conv_add": 2}


def test_a_kernel_with_channels_last_takes_them_where_there_is_no_group() -> None:
    model = Model(**LARGE)
    y = model.block(model.layer("x", size=3))
    assert taken(model.finished(model.node("Abs", y))) == {CONV3X3: 1, PLAIN: 1, ADDS: 1}


def test_a_group_in_one_part_of_a_network_changes_nothing_in_another() -> None:
    model = Model(**LARGE)
    y = model.layer(model.block(model.block("x")), size=3)
    assert taken(model.finished(model.layer(model.layer(y)))) == {
        "pointwise_conv": 2,
        "depthwise_conv": 2,
        "pointwise_conv_add": 2,
        CONV3X3: 1,
        PLAIN: 2,
    }


def test_a_kernel_that_replaces_more_nodes_than_a_place_of_a_group_does_not_wait() -> None:
    """A stem with channels last comes first, though its layers alone would belong to the group behind it."""
    model = Model(side=112, n=32, channels=3)
    y = model.conv("x", 32, 7, 7, pads=[3] * 4, strides=[2, 2])
    pool = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]}
    y = model.node("MaxPool", model.node("Relu", y), **pool)
    network = model.finished(model.block(model.block(y)))
    assert places_of(network, "few_channel_conv", "max_pool") == [("few_channel_conv", False), ("max_pool", False)]
    assert taken(network) == {STEM: 1, "pointwise_conv": 2, "depthwise_conv": 2, "pointwise_conv_add": 2}
