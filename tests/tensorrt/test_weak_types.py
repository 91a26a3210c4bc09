"""The types that a TensorRT without strong typing is told are those that a strongly typed network finds by itself.

TensorRT 8 builds on a GPU alone, so this is compared with what TensorRT-RTX's parser makes: the layers of a real
network, and beside them a note of what each was told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.precision import convert
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.weak_types import constrain


class Told:
    """A real layer, with the two settings of TensorRT 8 that TensorRT-RTX no longer has."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self.precision: Any = None
        self.output_types: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def set_output_type(self, index: int, kind: Any) -> None:
        self.output_types[index] = kind


class Network:
    """A network as its parser made it, whose layers keep what they are told."""

    def __init__(self, flavor: Flavor, model: onnx.ModelProto) -> None:
        trt = flavor.trt
        self._log = trt.Logger(trt.Logger.ERROR)
        self._builder = trt.Builder(self._log)
        network = self._builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        self._parser = trt.OnnxParser(network, self._log)
        assert self._parser.parse(model.SerializeToString())
        self._network = network
        self.layers = [Told(network.get_layer(index)) for index in range(network.num_layers)]
        self.num_layers = len(self.layers)
        self.get_layer = self.layers.__getitem__
        self.num_inputs, self.get_input = network.num_inputs, network.get_input


class Flags:
    def __init__(self) -> None:
        self.set: list[str] = []

    def set_flag(self, flag: str) -> None:
        self.set.append(flag)


class Names:
    """TensorRT 8's names of flags beside TensorRT-RTX's types."""

    def __init__(self, trt: Any) -> None:
        self.DataType, self.LayerType = trt.DataType, trt.LayerType

    class BuilderFlag:
        FP16, INT8, OBEY_PRECISION_CONSTRAINTS = "FP16", "INT8", "OBEY_PRECISION_CONSTRAINTS"


@pytest.fixture(scope="module")
def rtx() -> Flavor:
    return select("rtx")


def told(rtx: Flavor, model: onnx.ModelProto, **options: bool) -> tuple[list[Told], list[str]]:
    network, flags = Network(rtx, model), Flags()
    constrain(Names(rtx.trt), network, flags, model, **options)
    return network.layers, flags.set


def mixed() -> onnx.ModelProto:
    """Half the model in float16, the other half in float32, with a comparison and an index between them."""
    weights = numpy_helper.from_array(np.ones((4, 3), np.float16), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT16),
        helper.make_node("Gemm", ["narrow", "w"], ["product"], name="gemm"),
        helper.make_node("Cast", ["product"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Softmax", ["wide"], ["soft"], name="softmax"),
        helper.make_node("ArgMax", ["soft"], ["index"], name="argmax", axis=1),
        helper.make_node("Relu", ["product"], ["positive"], name="relu"),
        helper.make_node("Cast", ["positive"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, [2, 1]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]),
        ],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ["lenet5", "mixed"])
def test_each_layer_is_told_the_type_that_a_strongly_typed_network_gives_it(rtx, lenet5: Path, name: str) -> None:
    model = mixed() if name == "mixed" else convert(onnx.load(lenet5), "fp16")
    layers, flags = told(rtx, model)
    assert flags == ["FP16", "OBEY_PRECISION_CONSTRAINTS"]
    floats = {rtx.trt.float32, rtx.trt.float16}
    given = {rtx.trt.LayerType.CAST, rtx.trt.LayerType.CONSTANT, rtx.trt.LayerType.SHAPE}
    seen = set()
    for layer in layers:
        outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
        if layer.type in given or any(tensor.is_shape_tensor for tensor in outputs):
            assert layer.precision is None
            assert not layer.output_types
            continue
        expected = {index: tensor.dtype for index, tensor in enumerate(outputs) if tensor.dtype in floats}
        assert layer.output_types == expected, layer.name
        if expected:
            assert layer.precision == expected[0], layer.name
        seen |= set(expected.values())
    assert seen == floats if name == "mixed" else rtx.trt.float16 in seen


def test_a_float32_model_is_told_nothing(rtx, lenet5: Path) -> None:
    layers, flags = told(rtx, onnx.load(lenet5))
    assert flags == []
    assert all(layer.precision is None and not layer.output_types for layer in layers)


def test_quantization_is_left_to_the_nodes_that_say_it(rtx) -> None:
    scale, zero = numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z")
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Relu", ["d"], ["y"]),
        ],
        "q",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [scale, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    layers, flags = told(rtx, model)
    assert flags == ["INT8"]
    assert all(layer.precision is None for layer in layers)
    layers, flags = told(rtx, model, half_allowed=True)
    assert flags == ["INT8", "FP16"]
    assert all(layer.precision is None for layer in layers)


@pytest.mark.parametrize("held", ["initializer", "input", "value_info", "node"])
def test_a_float32_plugin_with_weights_in_two_halves_leaves_the_rest_in_float32(rtx, lenet5: Path, held: str) -> None:
    model = onnx.load(lenet5)
    network, flags = Network(rtx, model), Flags()
    fused = onnx.ModelProto()
    fused.CopyFrom(model)
    fused.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    halves = numpy_helper.from_array(np.ones((2, 4), np.float16), "halves")
    first = fused.graph.node[0]
    first.CopyFrom(helper.make_node("some_kernel", ["x", "halves"], first.output, name="first", domain=DOMAIN))
    if held == "node":
        fused.graph.node.insert(0, helper.make_node("Constant", [], ["halves"], value=halves))
    else:
        fused.graph.initializer.append(halves)
    if held in ("input", "value_info"):
        getattr(fused.graph, held).append(helper.make_tensor_value_info("halves", TensorProto.FLOAT16, [2, 4]))
    constrain(Names(rtx.trt), network, flags, fused)
    assert flags.set == []
    assert all(layer.precision is None and not layer.output_types for layer in network.layers)
    # An ordinary node that reads them computes in fp16.
    fused.graph.node.append(helper.make_node("Cast", ["halves"], ["wide"], to=TensorProto.FLOAT))
    constrain(Names(rtx.trt), network, flags, fused)
    assert flags.set == ["FP16", "OBEY_PRECISION_CONSTRAINTS"]
