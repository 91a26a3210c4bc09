"""Q/DQ at layers of every kind: where the scales go, and what reads floats again when a layer is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.onnx_model.quantization import in_float8
from lenet_trt.quantize.data import Calibration
from lenet_trt.quantize.insert import layers_of, prepared, quantized, quantized_layers, without
from lenet_trt.runtimes.ort import runner

RANDOM = np.random.default_rng(2)
Axes = Sequence[int | str]


def weights(*shape: int) -> np.ndarray:
    return (RANDOM.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto], tensors: Mapping[str, np.ndarray], x: Axes, y: Axes, opset: int = 17
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def made(model: onnx.ModelProto, *shape: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """The quantized model, and the data that calibrated it."""
    x = RANDOM.normal(size=(40, *shape)).astype(np.float32)
    return quantized(prepared(model), Calibration({"x": x}, None, "random"), 16, "minmax", False), x


def scales(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer if tensor.name.endswith("_scale")}


CASES = {
    "Gemm": (model_of([helper.make_node("Gemm", ["x", "w"], ["y"])], {"w": weights(8, 12)}, ["n", 8], ["n", 12]), 12),
    "Gemm transB": (
        model_of([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], {"w": weights(12, 8)}, ["n", 8], ["n", 12]),
        12,
    ),
    "MatMul": (
        model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights(8, 12)}, ["n", 8], ["n", 12]),
        12,
    ),
    "MatMul of batches": (
        model_of(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights(3, 8, 12)}, ["n", 3, 4, 8], ["n", 3, 4, 12]
        ),
        None,
    ),
    "Conv": (
        model_of([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": weights(6, 4, 3)}, ["n", 4, 9], ["n", 6, 7]),
        6,
    ),
    "depthwise Conv, old operators": (
        model_of(
            [helper.make_node("Conv", ["x", "w"], ["y"], group=4)],
            {"w": weights(4, 1, 3)},
            ["n", 4, 9],
            ["n", 4, 7],
            11,
        ),
        4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_have_a_scale_for_each_output_channel(name: str) -> None:
    model, channels = CASES[name]
    result, x = made(model, *(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[1:]))
    assert scales(result) == {"x_scale": (), "w_scale": () if channels is None else (channels,)}
    for each in (result, in_float8(result)):
        onnx.checker.check_model(each, full_check=True)
        (wanted,), (found,) = (runner(network)({"x": x}) for network in (model, each))
        assert np.linalg.norm(found - wanted) < 0.06 * np.linalg.norm(wanted)


def test_weights_that_are_constant_nodes_are_weights() -> None:
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights(8, 12)))
    model = model_of([constant, helper.make_node("MatMul", ["x", "w"], ["y"])], {}, ["n", 8], ["n", 12])
    assert scales(made(model, 8)[0]) == {"x_scale": (), "w_scale": (12,)}
    assert model.graph.node[0].op_type == "Constant", "the model that was given stays as it is"


def test_products_of_two_activations_stay_in_float() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["a"], name="queries"),
        helper.make_node("MatMul", ["x", "k"], ["b"], name="keys"),
        helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["s"], name="scores"),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("MatMul", ["p", "x"], ["y"], name="values"),
    ]
    model = model_of(nodes, {"q": weights(8, 8), "k": weights(8, 8)}, ["n", 5, 8], ["n", 5, 8])
    assert [node.name for node in layers_of(model)] == ["queries", "keys"]
    result, _ = made(model, 5, 8)
    assert [node.name for node in quantized_layers(result)] == ["queries", "keys"]


def test_without_all_readers_of_a_tensor_the_others_read_it_as_float() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1]),
        helper.make_node("Add", ["c", "x"], ["d"], name="add"),
        helper.make_node("Conv", ["d", "w"], ["y"], name="last"),
    ]
    model = model_of(nodes, {"w": weights(4, 4, 3)}, ["n", 4, 9], ["n", 4, 7])
    result, x = made(model, 4, 9)
    inputs = {node.name: list(node.input) for node in without(result, ["conv"]).graph.node}
    assert inputs["conv"] == ["x", "w"]
    assert inputs["add"] == ["c", "x"]
    assert not any("x_Quantize" in name for name in inputs)
    assert [node.name for node in quantized_layers(without(result, ["conv"]))] == ["last"]
    (wanted,), (found,) = (runner(network)({"x": x}) for network in (model, without(result, ["conv", "last"])))
    assert (found == wanted).all()
    both = {node.name: list(node.input) for node in without(result, []).graph.node}
    assert both["add"] == ["c", "x_DequantizeLinear_Output"]  # TensorRT joins the addition with the convolution
