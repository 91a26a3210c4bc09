"""1x1 convolutions in 16 bits: where the channels-last kernels are taken, and where TensorRT's own layers stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from layered_model import LayeredModel, fused_like_plain, operators_of
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes

PLAIN, ADDS = "conv1x1_half", "conv1x1_half_add"
CONV3X3, CONCAT = "conv3x3_half", "conv3x3_half_concat"
CHANNELS, FILTERS = 32, 40
(ACTIVATION,) = registry.kernel(PLAIN).attributes
# Those whose nodes its patterns have: the approximations of GELU stand in transformers alone.
ACTIVATIONS = tuple(dict.fromkeys(pattern.attributes["activation"] for pattern in registry.kernel(PLAIN).patterns))


class Images(LayeredModel):
    """Add layers of images."""

    def __init__(
        self, n: int | str = 2, channels: int = CHANNELS, height: int = 5, width: int = 7, **more: Any
    ) -> None:
        super().__init__(n, channels, height, width, **more)

    def layer(self, x: str, filters: int = FILTERS, side: int = 1, **more: Any) -> str:
        """Add a convolution with square filters."""
        return self.conv(x, filters, side, side, **more)


def one_layer(filters: int = FILTERS, activation: str = "none", changed: Any = None, **sizes: Any) -> onnx.ModelProto:
    """Return a model of one layer, which the kernel takes but for what is changed."""
    model = Images(**sizes)
    return model.finished(model.activation(activation, model.layer("x", filters, **(changed or {}))))


def chosen_activation(node: onnx.NodeProto) -> str | int:
    """Return the activation of a plugin node."""
    (chosen,) = (each.i for each in node.attribute if each.name == "activation")
    return ACTIVATION.choices[chosen]


def taken(model: onnx.ModelProto, sm: int = 90) -> Counter[str]:
    """Return the plugins that ``auto`` takes; these models are too large to be run."""
    return Counter(plugin_nodes(fuse(model, architectures=[sm]).model).values())


@pytest.mark.parametrize("n", [1, 2, "n"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_is_one_kernel(bias: bool, n: int | str) -> None:
    model = one_layer(n=n, changed={"bias": bias})
    assert operators_of(fused_like_plain(model, PLAIN)) == [PLAIN]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("opset", [14, 17, 20])
def test_the_activation_is_part_of_the_kernel(opset: int, activation: str) -> None:
    (node,) = fused_like_plain(one_layer(activation=activation, opset=opset), PLAIN).graph.node
    assert node.op_type == PLAIN
    assert chosen_activation(node) == activation


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("conv_first", [True, False])
@pytest.mark.parametrize("n", [2, "n"])
def test_a_residual_is_part_of_the_kernel(n: int | str, conv_first: bool, activation: str) -> None:
    model = Images(n)
    y = model.layer("x", CHANNELS)
    total = model.node("Add", *([y, "x"] if conv_first else ["x", y]))
    (node,) = fused_like_plain(model.finished(model.activation(activation, total)), ADDS).graph.node
    assert node.op_type == ADDS
    assert chosen_activation(node) == activation


def test_a_block_without_bias_has_a_kernel_for_each_layer() -> None:
    model = Images("n")
    other = model.node("Neg", "x")
    y = model.layer(model.node("Relu", model.layer("x", 64, bias=False)), CHANNELS, bias=False)
    block = model.finished(model.node("Relu", model.node("Add", other, y)))
    assert operators_of(fused_like_plain(block, PLAIN, ADDS)) == ["Neg", PLAIN, ADDS]


def test_an_activation_before_the_sum_is_of_the_convolution_alone() -> None:
    model = Images()
    block = model.finished(model.node("Add", model.node("Relu", model.layer("x", CHANNELS)), "x"))
    assert operators_of(fused_like_plain(block, PLAIN)) == [PLAIN, "Add"]
    with pytest.raises(LenetTrtError, match=f"{ADDS}: the network has no place for it"):
        fuse(block, [ADDS])


def test_a_convolution_that_others_read_too_keeps_its_sum_apart() -> None:
    model = Images()
    y = model.layer("x", CHANNELS)
    block = model.finished(model.node("Add", y, "x"), model.node("Neg", y))
    assert operators_of(fused_like_plain(block, PLAIN)) == [PLAIN, "Add", "Neg"]
    with pytest.raises(LenetTrtError, match="is also used by"):
        fuse(block, [ADDS])


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": [2, 2]},
        {"strides": [1, 2]},
        {"pads": [1] * 4},
        {"group": 2},
        {"side": 3},
        {"side": 3, "pads": [1] * 4},
    ],
    ids=str,
)
def test_another_convolution_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{PLAIN}: the network has no place for it: the network has no such"):
        fuse(one_layer(changed=changed), [PLAIN])


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ({"channels": 36}, "c is a multiple of 8, and c = 36"),
        ({"filters": 36}, "k is a multiple of 8, and k = 36"),
        ({"channels": 24}, "32 <= c, and c = 24"),
        ({"filters": 24}, "32 <= k, and k = 24"),
        ({"dtype": TensorProto.FLOAT}, "has weights of types float32, float32; it is declared for fp16"),
    ],
    ids=str,
)
def test_what_it_has_no_code_for_is_named(sizes: dict[str, Any], wanted: str) -> None:
    with pytest.raises(LenetTrtError, match=f"{PLAIN}.*{wanted}"):
        fuse(one_layer(**sizes), [PLAIN])


def test_layers_in_bf16_are_taken() -> None:
    assert operators_of(fuse(one_layer(dtype=TensorProto.BFLOAT16), [PLAIN]).model) == [PLAIN]


@pytest.mark.parametrize(
    ("axes", "wanted"), [([2, 3], "h is 1 here and 5 in x"), ([0, 2, 3], "n is 1"), ([0], "n is 1")], ids=str
)
def test_a_residual_that_is_broadcast_stays_a_sum(axes: list[int], wanted: str) -> None:
    model = Images()
    block = model.finished(model.node("Add", model.layer("x", CHANNELS), model.node("ReduceMean", "x", axes=axes)))
    with pytest.raises(LenetTrtError, match=f"{ADDS}.*{wanted}"):
        fuse(block, [ADDS])
    assert operators_of(fused_like_plain(block, PLAIN)) == [PLAIN, "ReduceMean", "Add"]


def test_a_residual_that_may_be_broadcast_over_an_open_batch_stays_a_sum() -> None:
    model = Images("n")
    block = model.finished(model.node("Add", model.layer("x", CHANNELS), model.constant(1, CHANNELS, 5, 7)))
    with pytest.raises(LenetTrtError, match=f"{ADDS}.*other has size 1 where x has an open one"):
        fuse(block, [ADDS])
    assert operators_of(fused_like_plain(block, PLAIN)) == [PLAIN, "Add"]


def test_one_block_with_its_shortcut_first_costs_no_other_block() -> None:
    """A sum of two convolutions is two patterns; all blocks of a file share the nodes of one function."""
    model = Images(channels=CHANNELS)
    shortcut = model.layer("x", CHANNELS)
    y = model.node("Relu", model.node("Add", model.layer("x", CHANNELS), shortcut))
    for _ in range(3):
        y = model.node("Relu", model.node("Add", model.layer(y, CHANNELS), y))
    operators = operators_of(fused_like_plain(model.finished(y), PLAIN, ADDS))
    assert operators.count(ADDS) == 3


@pytest.mark.parametrize("n", [1, 32, "n"])
def test_auto_takes_layers_on_hopper_beside_plugins_and_in_groups(n: int | str) -> None:
    model = one_layer(activation="relu", n=n, height=7, width=7)
    for sm in (80, 89, 90, 120):
        places, _ = find_places(model, [registry.kernel(PLAIN)], [sm])
        assert {(place.beside, place.grouped) for place in places} == ({(True, True)} if sm == 90 else set())
        assert taken(model, sm) == {}


def bottlenecks(n: int, side: int, channels: int, blocks: int) -> onnx.ModelProto:
    """Return blocks of a ResNet-50 behind a layer at stride 2, which is TensorRT's, as is the one behind them."""
    model = Images(n, channels, 2 * side, 2 * side)
    x = model.node("Relu", model.layer("x", 4 * channels, strides=[2, 2]))
    for _ in range(blocks):
        y = model.node("Relu", model.layer(x, channels))
        y = model.node("Relu", model.layer(y, channels, 3, pads=[1] * 4))
        x = model.node("Relu", model.node("Add", model.layer(y, 4 * channels), x))
    return model.finished(model.layer(x, channels, strides=[2, 2]))


@pytest.mark.parametrize(
    ("n", "side", "channels", "blocks", "expected"),
    [
        (1, 28, 32, 1, {}),  # two layers of 1x1, and one of 3x3 with too few channels between them
        (1, 28, 128, 1, {PLAIN: 1, ADDS: 1, CONV3X3: 1}),
        (1, 28, 128, 2, {PLAIN: 2, ADDS: 2, CONV3X3: 2}),
        (64, 28, 128, 2, {PLAIN: 1, ADDS: 2}),  # too many pixels for those of 3x3, which part the group
        (1, 7, 512, 1, {PLAIN: 1, ADDS: 1, CONV3X3: 1}),  # the one of 3x3 is taken by itself
    ],
)
def test_auto_takes_blocks_of_a_resnet_in_groups(
    n: int, side: int, channels: int, blocks: int, expected: dict[str, int]
) -> None:
    model = bottlenecks(n, side, channels, blocks)
    assert taken(model) == expected
    assert taken(model, 89) == {}


def residual_block(side: int, channels: int) -> onnx.ModelProto:
    """Return a block of a ResNet-50 at batch 32, and the end of the one before it."""
    model = Images(32, channels, side, side)
    x = model.node("Relu", model.layer(model.layer("x", channels, 3, pads=[1] * 4), 4 * channels))
    y = model.node("Relu", model.layer(x, channels))
    y = model.node("Relu", model.layer(y, channels, 3, pads=[1] * 4))
    return model.finished(model.node("Relu", model.node("Add", model.layer(y, 4 * channels), x)))


@pytest.mark.parametrize(("side", "channels"), [(56, 64), (28, 128), (14, 256)])
def test_auto_takes_the_blocks_of_a_resnet(side: int, channels: int) -> None:
    block = residual_block(side, channels)
    assert taken(block) == {PLAIN: 2, ADDS: 1, CONV3X3: 2}
    assert taken(block, 89) == {}


@pytest.mark.parametrize(("n", "expected"), [(32, {ADDS: 1}), (31, {})])
def test_auto_takes_a_sum_of_much_work_between_layers_of_tensorrt(n: int, expected: dict[str, int]) -> None:
    model = Images(n, 512, 7, 7)
    other = model.node("Abs", model.layer("x", 2048, strides=[2, 2], pads=[3] * 4))
    model.channels = 512
    block = model.node("Relu", model.node("Add", model.layer("x", 2048), other))
    assert taken(model.finished(model.node("Neg", block))) == expected


@pytest.mark.parametrize("name", [PLAIN, ADDS])
def test_before_a_concatenation_a_layer_is_left_to_tensorrt(name: str) -> None:
    """TensorRT's own layer writes into the concatenation, with the sum and the activation."""
    model = Images(3, height=56, width=56)
    x = model.layer("x", CHANNELS, 3, pads=[1] * 4)
    y = model.layer(x, CHANNELS)
    y = model.node("Relu", model.node("Add", y, x) if name == ADDS else y)
    joined = model.finished(model.node("Concat", y, "x", axis=1))
    result = fuse(joined, architectures=[90])
    assert Counter(plugin_nodes(result.model).values()) == {CONV3X3: 1}
    assert [each.kernel for each in result.refusals if f"with one that reads {y}" in each.reason] == [name]
    assert operators_of(fused_like_plain(joined, name)).count(name) == 1


def test_where_the_concatenation_is_replaced_too_nothing_is_copied() -> None:
    model = Images(3, 64, 56, 56)
    y = model.node("Relu", model.layer("x", 64))
    joined = model.node("Concat", y, "x", axis=1)
    model.channels *= 2
    y = model.node("Relu", model.layer(joined, 64, 3, pads=[1] * 4))
    assert taken(model.finished(y)) == {PLAIN: 1, CONCAT: 1}
