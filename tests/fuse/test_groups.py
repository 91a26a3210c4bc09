"""In 16 bits convolutions are plugins in groups of plugins, and TensorRT's elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

CHANNELS, SIDE = 16, 6


class Model:
    """A graph in the making, of images of fp16."""

    def __init__(self, side: int = SIDE) -> None:
        self.side = side
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(3)

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def conv(self, x: str, size: int = 1, group: int = 1, stride: int = 1) -> str:
        names = []
        for shape in ((CHANNELS, CHANNELS // group, size, size), (CHANNELS,)):
            names.append(f"w{len(self.tensors)}")
            scale = 1 / np.sqrt(CHANNELS // group * size * size)
            array = (self.random.normal(size=shape) * scale).astype(np.float16)
            self.tensors.append(numpy_helper.from_array(array, names[-1]))
        return self.node(
            "Conv", x, *names, kernel_shape=[size] * 2, pads=[size // 2] * 4, strides=[stride] * 2, group=group
        )

    def block(self, x: str) -> str:
        """An inverted residual: three layers, the last of which adds the block's input."""
        y = self.node("Relu", self.conv(x))
        y = self.node("Relu", self.conv(y, size=3, group=CHANNELS))
        return self.node("Add", self.conv(y), x)

    def finished(self, *outputs: str) -> onnx.ModelProto:
        ports = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT16, [2, CHANNELS, self.side, self.side])
            for name in ("x", *outputs)
        ]
        graph = helper.make_graph(self.nodes, "group", ports[:1], ports[1:], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def taken(model: onnx.ModelProto, architectures: Sequence[int] = (90,)) -> Counter[str]:
    """Return the plugins that ``auto`` takes; their results are compared in ONNX Runtime."""
    fused = fuse(model, "auto", architectures).model
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float16)
    for seen, wanted in zip(*(run(each, x=x) for each in (fused, model)), strict=True):
        np.testing.assert_allclose(seen.astype(float), wanted.astype(float), rtol=0, atol=0.05)
    return Counter(plugin_nodes(fused).values())


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
    y = model.conv(model.block(model.block("x")), size=3)
    assert taken(model.finished(model.conv(model.conv(y)))) == {
        "pointwise_conv": 2,
        "depthwise_conv": 2,
        "pointwise_conv_add": 2,
    }


def test_a_plugin_with_channels_last_is_no_part_of_a_group() -> None:
    """TensorRT converts between its layout and theirs too."""
    model = Model(side=64)
    y = model.node("Relu", model.conv("x", size=3))
    for _ in range(3):
        y = model.node("Relu", model.conv(y, size=3, group=CHANNELS))
    y = model.node("Relu", model.conv(y, size=3))
    assert taken(model.finished(y)) == {"conv3x3_half": 2}


@pytest.mark.parametrize("architectures", [(86,), (86, 90), ()])
def test_gpus_on_which_groups_were_not_measured(architectures: Sequence[int]) -> None:
    model = Model()
    assert not taken(model.finished(model.block(model.block("x"))), architectures)


def test_what_is_left_is_told() -> None:
    model = Model()
    refused = fuse(model.finished(model.node("Abs", model.conv("x"))), "auto", (90,)).refusals
    assert [refusal.reason for refusal in refused if refusal.kernel == "pointwise_conv"] == [
        "not among as many plugins as pay for conversions: --plugins pointwise_conv takes it there"
    ]


@pytest.mark.parametrize("attributes", [{"stride": 2}, {"group": 2}, {"size": 3}])
def test_what_is_no_pointwise_convolution(attributes: dict[str, int]) -> None:
    model = Model()
    fused = fuse(model.finished(model.conv("x", **attributes)), "all", (90,)).model
    assert "pointwise_conv" not in plugin_nodes(fused).values()
