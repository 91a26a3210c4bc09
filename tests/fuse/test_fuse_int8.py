"""Kernels of 8 bits in the place of layers between Q/DQ: matched, exact in integers, compiled, embedded and built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from lenet_trt.cuda.compile import compile_variant
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.export.weights import load_weights
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import Kernel, registry
from lenet_trt.kernel.examples import bounds, expected_outputs, kernel_inputs, plain_inputs
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.quantize.data import Calibration
from lenet_trt.quantize.insert import prepared, quantized
from lenet_trt.runtimes.ort import runner

REPLACED = [
    (
        f"DequantizeLinear fc{i}.weight_DequantizeLinear",
        f"DequantizeLinear {x}_DequantizeLinear",
        f"Gemm fc{i}",
        f"Relu relu{i + 2}",
        f"QuantizeLinear relu{i + 2}_output_QuantizeLinear",
    )
    for i, x in ((1, "flatten_output"), (2, "relu3_output"))
]


@pytest.fixture(scope="module")
def dense() -> Kernel:
    return registry.kernel("dense_int8")


def with_int8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with its weights as constants of int8, as other exporters write them."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.name.endswith("weight_QuantizeLinear")]:
        weights, scale, _ = (tensors[name] for name in node.input)
        scaled = weights / scale.reshape(-1, *[1] * (weights.ndim - 1))
        numbers = np.clip(np.rint(scaled), -128, 127).astype(np.int8)
        model.graph.initializer.append(numpy_helper.from_array(numbers, node.output[0]))
        model.graph.node.remove(node)
    return model


@pytest.mark.parametrize("spelling", [lambda model: model, with_int8_weights], ids=["Q/DQ", "int8 constants"])
def test_the_dense_layers_of_lenet5_are_replaced(dense: Kernel, spelling) -> None:
    model = spelling(lenet5_int8())
    onnx.checker.check_model(model, full_check=True)
    fused = fuse(model, [dense])
    assert [entry.replaced for entry in fused.replacements] == REPLACED
    assert list(plugin_nodes(fused.model).values()) == ["dense_int8", "dense_int8"]
    # The values between them stay of 8 bits.
    first, second = (node for node in fused.model.graph.node if node.op_type == "dense_int8")
    assert first.output[0] == second.input[0]
    x = mnist.network_input(mnist.test_set()[0][:200])
    (wanted,), (found,) = (runner(each)({"images": x}) for each in (model, fused.model))
    assert (found == wanted).all()


@pytest.mark.parametrize("written", ["MatMul", "MatMul Add", "Gemm"])
def test_other_spellings_of_a_dense_layer(dense: Kernel, written: str) -> None:
    random = np.random.default_rng(4)
    tensors = {
        "w": (random.normal(size=(24, 12)) / 5).astype(np.float32),
        "b": random.normal(size=12).astype(np.float32),
        "v": (random.normal(size=(12, 6)) / 4).astype(np.float32),
    }
    make = onnx.helper.make_node
    first = {
        "MatMul": [make("MatMul", ["x", "w"], ["h"])],
        "MatMul Add": [make("MatMul", ["x", "w"], ["p"]), make("Add", ["p", "b"], ["h"])],
        "Gemm": [make("Gemm", ["x", "w", "b"], ["h"])],
    }[written]
    nodes = [*first, make("Relu", ["h"], ["r"]), make("MatMul", ["r", "v"], ["y"])]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "two layers",
        [value("x", onnx.TensorProto.FLOAT, ["n", 24])],
        [value("y", onnx.TensorProto.FLOAT, ["n", 6])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    x = random.normal(size=(64, 24)).astype(np.float32)
    narrow = quantized(prepared(model), Calibration({"x": x}, None, "random"), 64, "minmax", False)
    fused = fuse(narrow, [dense]).model
    assert list(plugin_nodes(fused).values()) == ["dense_int8"]
    (wanted,), (found,) = (runner(each)({"x": x}) for each in (narrow, fused))
    assert np.linalg.norm(found - wanted) < 5e-3 * np.linalg.norm(wanted)


def test_the_weights_in_the_file_are_the_integers(dense: Kernel) -> None:
    fused = fuse(lenet5_int8(), [dense]).model
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in fused.graph.initializer}
    node = next(node for node in fused.graph.node if node.op_type == "dense_int8")
    numbers, scale = tensors[node.input[2]], tensors["fc1.weight_scale"]
    assert numbers.dtype == np.int8
    assert (np.abs(numbers.astype(int)).max(axis=1) == 127).all(), "each row uses all of its scale"
    assert np.abs(numbers * scale[:, None] - load_weights()["fc1.weight"]).max() <= scale.max() / 2 + 1e-7


def test_the_reference_is_what_the_nodes_compute_up_to_the_order_of_float_sums(dense: Kernel) -> None:
    model = lenet5_int8()
    fused = fuse(model, [dense]).model
    first = next(node for node in fused.graph.node if node.op_type == "dense_int8")
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in fused.graph.initializer}
    fused.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT8, None)
        for name in (first.input[0], first.output[0])
    )
    x = mnist.network_input(mnist.test_set()[0][:300])
    _, given, wanted = runner(fused)({"images": x})
    found = dense.reference(given, *(tensors[name] for name in first.input[1:]), relu=1)
    assert found.dtype == np.int8
    steps = np.abs(found.astype(int) - wanted)
    assert steps.max() <= 1, "a sum that lies half way between two numbers may fall to either"
    assert (steps > 0).mean() < 1e-3


def test_examples_saturate_at_both_ends(dense: Kernel) -> None:
    for bound in bounds(dense):
        plain = plain_inputs(bound, np.random.default_rng(0))
        assert [array.dtype.name for array in kernel_inputs(bound, plain)] == list(bound.input_dtypes)
        (wanted,) = expected_outputs(bound, plain)
        assert (wanted == np.rint(wanted)).all()
        assert wanted.max() == 127
        assert wanted.min() == (0 if bound.attributes["relu"] else -128)


@pytest.mark.parametrize("sm", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"])
def test_it_compiles(dense: Kernel, sm: str) -> None:
    bound = next(iter(bounds(dense)))
    fitting = next(variant for variant in dense.variants if variant.supports(int(sm[3:]), bound.types))
    assert compile_variant(bound.specialized, fitting, sm).image


def test_the_copy_for_tensorrt_carries_it(dense: Kernel) -> None:
    from lenet_trt.tensorrt.library.embed import embedded

    copy = embedded(fuse(lenet5_int8(), [dense]).model, ["sm_90"])
    nodes = [node for node in copy.graph.node if node.op_type == "Kernel"]
    assert len(nodes) == 2
    assert [len(node.input) for node in nodes] == [6, 6]


def test_tensorrt_rtx_builds_it_between_its_own_layers(tmp_path: Path) -> None:
    from lenet_trt.build.request import BuildRequest
    from lenet_trt.build.stage import build
    from lenet_trt.export.lenet5 import SHIPPED_INT8

    asked = BuildRequest(
        onnx=SHIPPED_INT8, plugins="dense_int8", sms=("8.9",), output=tmp_path / "m.engine", flavor="rtx"
    )
    built = build(asked)
    assert [entry["types"] for entry in built.sidecar.plugins] == ["int8", "int8"]
    assert built.sidecar.evaluation["correct"] == 9932
