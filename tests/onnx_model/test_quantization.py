"""What TensorRT refuses of a quantized model is said before it does, and float8 stands for the same values as int8."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.lenet5 import SHIPPED, SHIPPED_INT8
from lenet_trt.onnx_model.quantization import (
    at_opset,
    check_quantization,
    in_float8,
    quantized_nodes,
    with_quantized_input,
)
from lenet_trt.runtimes.ort import runner


def pair(
    scale: object = 0.5, zero: object = np.int8(0), opset: int = 17, computed: bool = False, **attributes: int
) -> onnx.ModelProto:
    """A Q/DQ pair on ``x`` [n, 4]; ``zero`` None leaves the zero point out."""
    tensors = [numpy_helper.from_array(np.asarray(scale, np.float32), "scale")]
    names = ["scale"]
    if zero is not None:
        tensors.append(numpy_helper.from_array(np.asarray(zero), "zero"))
        names.append("zero")
    nodes = []
    if computed:
        nodes.append(helper.make_node("ReduceMax", ["x"], ["scale.now"], name="max", keepdims=0))
        names[0] = "scale.now"
    nodes += [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], name="quantize", **attributes),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], name="dequantize"),
    ]
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def test_symmetric_int8_and_float8_pass() -> None:
    check_quantization(pair())
    check_quantization(in_float8(pair()))
    check_quantization(pair(zero=None, opset=21, output_dtype=TensorProto.INT8))
    check_quantization(onnx.load(SHIPPED))
    check_quantization(onnx.load(SHIPPED_INT8))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (pair(zero=np.int8(3)), r"QuantizeLinear node 'quantize': its zero point zero is 3; .*symmetric"),
        (pair(zero=np.uint8(0)), r"QuantizeLinear node 'quantize': q is UINT8; wanted INT8"),
        (pair(zero=None), r"QuantizeLinear node 'quantize': q is UINT8"),  # what ONNX gives where nothing is said
        (pair(scale=0.0), r"its scale scale has the value 0; TensorRT wants scales above 0"),
        (pair(scale=np.nan), r"its scale scale has the value nan"),
        (pair(scale=-1.0), r"its scale scale has the value -1"),
        (pair(computed=True), r"its scale scale.now is computed; TensorRT wants a constant"),
    ],
    ids=["asymmetric", "uint8", "no zero point", "zero scale", "nan scale", "negative scale", "computed scale"],
)
def test_what_tensorrt_refuses(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(LenetTrtError, match=said):
        check_quantization(model)


def test_an_int32_bias_is_refused() -> None:
    tensors = [
        numpy_helper.from_array(np.zeros(4, np.int32), "b"),
        numpy_helper.from_array(np.ones((), np.float32), "scale"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["b", "scale"], ["bias"]),
            helper.make_node("Add", ["x", "bias"], ["y"]),
        ],
        "bias",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    with pytest.raises(LenetTrtError, match=r"b is INT32; .*leave biases in float"):
        check_quantization(model)


@pytest.mark.parametrize("operator", ["QLinearConv", "MatMulInteger", "DynamicQuantizeLinear", "com.microsoft::QGemm"])
def test_operators_of_the_qoperator_format(operator: str) -> None:
    domain, _, name = operator.rpartition("::")
    model = pair()
    model.graph.node.append(helper.make_node(name, ["q"], ["z"], name="integers", domain=domain))
    assert name in quantized_nodes(model)
    with pytest.raises(LenetTrtError, match=f"{name} node 'integers' is an operator of the QOperator format"):
        check_quantization(model)


def test_float8_keeps_the_largest_value_and_rounds_to_its_own_steps() -> None:
    model = in_float8(pair(scale=0.5))  # int8 up to 63.5
    x = np.array([[63.5, 100.0, 63.5 / 448, 63.5 * 17 / 448]], np.float32)
    # 17 lies between 16 and 18, the numbers that e4m3 has there: ties go to the even mantissa.
    (found,) = runner(model)({"x": x})
    assert np.allclose(found, [[63.5, 63.5, 63.5 / 448, 63.5 * 16 / 448]], rtol=1e-6)
    (found,) = runner(pair(scale=0.5))({"x": np.array([[0.25, 0.75, -100, 63.6]], np.float32)})
    assert (found == [[0, 1, -64, 63.5]]).all()


def test_an_operator_set_that_cannot_be_reached() -> None:
    model = pair()
    model.graph.node.append(helper.make_node("NoSuchOperator", ["y"], ["z"]))
    with pytest.raises(LenetTrtError, match=r"operator set 17, and cannot be brought to 19.*export it again"):
        at_opset(model, 19)
    assert at_opset(model, 13).opset_import[0].version == 17


def test_the_first_quantization_can_be_left_to_the_caller() -> None:
    model = pair()
    narrow = with_quantized_input(model)
    assert [node.op_type for node in narrow.graph.node] == ["DequantizeLinear"]
    assert narrow.graph.input[0].type.tensor_type.elem_type == TensorProto.INT8
    x = np.array([[0.2, 0.25, 0.75, -100]], np.float32)
    (wanted,), (found,) = runner(model)({"x": x}), runner(narrow)({"x": np.array([[0, 0, 2, -128]], np.int8)})
    assert (found == wanted).all()
    with pytest.raises(LenetTrtError, match="0 of the inputs x go to a QuantizeLinear alone"):
        with_quantized_input(narrow)
