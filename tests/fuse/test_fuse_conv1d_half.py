"""Convolutions along one axis in 16 bits: where channels-last kernels are taken, and what is between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

PLAIN, TOKENS, DENSE = "conv1d_half", "conv1d_half_tokens", "linear_half"
CHANNELS, STEPS, FILTERS = 16, 42, 32
ROOT = 1.4140625  # of two, in fp16


class Model:
    """Add layers in fp16 one after the other."""

    def __init__(self, sequences: Any = 2, channels: int = CHANNELS, steps: int = STEPS, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.x = [sequences, channels, steps]
        self.channels, self.opset = channels, opset

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, *shape: int) -> str:
        name = f"constant{len(self.constants)}"
        numbers = np.random.default_rng(len(self.constants)).normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        self.constants[name] = numbers.astype(np.float16)
        return name

    def number(self, value: float) -> str:
        name = f"number{value}"
        self.constants[name] = np.array(value, np.float16)
        return name

    def conv(
        self, x: str, filters: int = FILTERS, taps: int = 3, group: int = 1, bias: bool = True, **more: Any
    ) -> str:
        """Add a convolution, whose attributes are those of ONNX."""
        weights = [self.constant(filters, self.channels // group, taps)] + ([self.constant(filters)] if bias else [])
        self.channels = filters
        sizes = {"kernel_shape": [taps], **({"group": group} if group > 1 else {}), **more}
        return self.node("Conv", x, *weights, **sizes)

    def gelu(self, x: str) -> str:
        """Add GELU as torch's exporters write it."""
        if self.opset >= 20:
            return self.node("Gelu", x)
        erf = self.node("Erf", self.node("Div", x, self.number(ROOT)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.number(1.0))), self.number(0.5))

    def dense(self, x: str) -> str:
        product = self.node("MatMul", x, self.constant(self.channels, self.channels))
        return self.gelu(self.node("Add", product, self.constant(self.channels)))

    def finished(self, output: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, self.x)
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "sequences", [x], [onnx.ValueInfoProto(name=output)], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def stem(layers: int, filters: int = FILTERS, **sizes: Any) -> onnx.ModelProto:
    """Return the layers that an encoder of speech begins with, as in Whisper, and dense layers of its tokens."""
    model = Model(**sizes)
    y = model.gelu(model.conv("x", filters, pads=[1, 1]))
    y = model.gelu(model.conv(y, filters, strides=[2], pads=[1, 1]))
    y = model.node("Transpose", y, perm=[0, 2, 1])
    for _ in range(layers):
        y = model.dense(y)
    return model.finished(y)


def one_layer(channels: int = CHANNELS, **changed: Any) -> onnx.ModelProto:
    model = Model(channels=channels)
    return model.finished(model.conv("x", **changed))


def alike(model: onnx.ModelProto, *names: str) -> list[str]:
    """Return the operators of the model with these plugins, which computes the same."""
    fused = fuse(model, names).model
    onnx.checker.check_model(fused, full_check=True)
    shape = [dim.dim_value or 3 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float16)
    (seen,), (wanted,) = (run(each, x) for each in (fused, model))
    assert seen.shape == wanted.shape
    assert relative_error(seen, wanted.astype(np.float64)) < 2e-3
    return [node.op_type for node in fused.graph.node]


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


@pytest.mark.parametrize("name", ["Relu", "HardSwish", "Sigmoid", "Clip", "Gelu", "tanh"])
def test_the_activation_is_part_of_the_kernel(name: str) -> None:
    model = Model(opset=20)
    y = model.conv("x")
    if name == "Sigmoid":
        y = model.node("Mul", y, model.node("Sigmoid", y))
    elif name == "Clip":
        y = model.node("Clip", y, model.number(0.0), model.number(6.0))
    else:
        y = model.node("Gelu", y, approximate="tanh") if name == "tanh" else model.node(name, y)
    assert alike(model.finished(y), PLAIN) == ["Reshape", PLAIN, "Reshape"]


def test_layers_of_several_sizes_share_a_function() -> None:
    model = Model()
    y = model.node("Relu", model.conv("x", 40, pads=[1, 1]))
    y = model.node("Relu", model.conv(y, FILTERS, pads=[1, 1]))
    y = model.gelu(model.conv(y, 48, taps=5, strides=[2]))
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
    model = Model()
    row = model.constant(FILTERS, CHANNELS, 1, 3)
    model.x.insert(2, 1)
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model.finished(model.node("Conv", "x", row, kernel_shape=[1, 3])), [PLAIN])


@pytest.mark.parametrize("perm", [[0, 2, 1], [1, 0, 2], [2, 0, 1]], ids=str)
def test_tokens_are_channels_behind_steps(perm: list[int]) -> None:
    layers = Model()
    model = layers.finished(layers.node("Transpose", layers.node("Relu", layers.conv("x")), perm=perm))
    if perm == [0, 2, 1]:
        assert alike(model, TOKENS) == ["Reshape", TOKENS]
    else:
        assert alike(model, PLAIN) == ["Reshape", PLAIN, "Reshape", "Transpose"]
        with pytest.raises(LenetTrtError, match="the network has no place for it"):
            fuse(model, [TOKENS])


def test_maps_that_are_read_as_well_are_no_tokens() -> None:
    layers = Model()
    maps = layers.node("Relu", layers.conv("x"))
    tokens = layers.node("Transpose", maps, perm=[0, 2, 1])
    model = layers.finished(layers.node("MatMul", tokens, maps))
    with pytest.raises(LenetTrtError, match="is also used by"):
        fuse(model, [TOKENS])
    assert alike(model, PLAIN) == ["Reshape", PLAIN, "Reshape", "Transpose", "MatMul"]


@pytest.mark.parametrize(
    ("sequences", "steps", "sm", "taken"),
    [(32, 3000, 90, [PLAIN, TOKENS]), (32, 3000, 89, []), (1, 3000, 90, []), (64, 2999, 90, [PLAIN])],
)
def test_auto_takes_layers_with_enough_work_on_hopper(sequences: int, steps: int, sm: int, taken: list[str]) -> None:
    model = stem(0, 384, sequences=sequences, channels=80, steps=steps)
    assert list(plugin_nodes(fuse(model, architectures=[sm]).model).values()) == taken


@pytest.mark.parametrize(("sequences", "claimed"), [(32, True), (1, False)])
def test_one_sequence_is_enough_beside_plugins_alone(sequences: int, claimed: bool) -> None:
    model = stem(0, 384, sequences=sequences, channels=80, steps=3000)
    places, _ = find_places(model, [registry.kernel(name) for name in (PLAIN, TOKENS)], [90])
    assert {place.kernel.name for place in places} == {PLAIN, TOKENS}
    assert {(place.claimed, place.beside) for place in places} == {(claimed, not claimed)}
    short = stem(0, 384, sequences=1, channels=80, steps=1500)  # the first layer has too little work
    origins = [place.match.origins for place in find_places(short, [registry.kernel(PLAIN)], [90])[0]]
    assert origins
    assert all(0 not in nodes for nodes in origins)
