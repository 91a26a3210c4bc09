"""Layer information of an engine: types, sizes, weights and depth in the words of TensorRT 8.6, 10 and 11."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.schema import checked
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor, data_type, layer_from_inspector

CONV: dict[str, Any] = {
    "Name": "conv1 + relu1",
    "LayerType": "CaskConvolution",
    "Inputs": [{"Name": "x", "Dimensions": [8, 4, 28, 28], "Format/Datatype": "Row major linear FP16 format"}],
    "Outputs": [{"Name": "y", "Dimensions": [8, 6, 24, 24], "Format/Datatype": "Row major linear FP16 format"}],
    "ParameterType": "Convolution",
    "Kernel": [5, 5],
    "Groups": 2,
    "Weights": {"Type": "Half", "Count": 300},
    "Bias": {"Type": "Half", "Count": 6},
}


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("Row major linear FP32", "float32"),
        ("Float", "float32"),
        ("Row major linear FP16 format", "float16"),
        ("Channel major FP16 format where channel % 8 == 0", "float16"),
        ("Half", "float16"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8"),
        ("BFloat16", "bfloat16"),
        ("Row major linear BF16", "bfloat16"),
        ("FP8", "float8_e4m3fn"),
        ("Row major Int8 format", "int8"),
        ("UInt8", "uint8"),
        ("Int32", "int32"),
        ("Row major INT64", "int64"),
        ("Bool", "bool"),
        ("N/A due to dynamic shapes", ""),
    ],
)
def test_the_words_for_a_format_name_its_element_type(text: str, dtype: str) -> None:
    assert data_type(text) == dtype


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("float16", 2), ("bfloat16", 2), ("int8", 1), ("float8_e4m3fn", 1), ("int64", 8), ("bool", 1)],
)
def test_a_tensor_has_the_bytes_of_its_type(dtype: str, size: int) -> None:
    assert LayerTensor("x", (3, 5), dtype).bytes == 15 * size


def test_half_a_byte_an_element_is_rounded_up() -> None:
    assert LayerTensor("x", (3,), "int4").bytes == 2


def test_a_convolution_tells_its_weights_and_its_depth() -> None:
    layer = layer_from_inspector(CONV, "layers.json")
    assert layer.depth == 5 * 5 * 4 // 2
    assert [(entry.shape, entry.dtype, entry.bytes) for entry in layer.weights] == [
        ((300,), "float16", 600),
        ((6,), "float16", 12),
    ]


@pytest.mark.parametrize(("operation", "depth"), [("NONE", 16), ("TRANSPOSE", 9)])
def test_a_product_has_the_depth_of_its_inner_size(operation: str, depth: int) -> None:
    row = {
        "Name": "mm",
        "ParameterType": "MatrixMultiply",
        "MatrixOpA": operation,
        "Inputs": [{"Name": "a", "Dimensions": [2, 9, 16], "Format": "Linear", "Datatype": "FP32"}],
    }
    layer = layer_from_inspector(row, "layers.json")
    assert (layer.depth, layer.inputs[0].dtype) == (depth, "float32")


def test_open_axes_and_missing_words_leave_a_tensor_unknown() -> None:
    row = {"Name": "x", "Inputs": [{"Name": "a", "Dimensions": [-1, 3], "Format/Datatype": "Half"}, "b"]}
    layer = layer_from_inspector(row, "layers.json")
    assert [entry.bytes for entry in layer.inputs] == [None, None]
    assert layer.depth is None


def test_a_layer_survives_json() -> None:
    layer = layer_from_inspector({**CONV, "Metadata": "[ONNX Layer: conv1]\x1f[ONNX Layer: relu1]"}, "layers.json")
    assert layer.onnx == ("conv1", "relu1")
    assert checked(json.loads(json.dumps(layer.as_dict())), EngineLayer, "it", wanted="a layer", fix="") == layer


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 3),
        ("depth", "5"),
        ("depth", -1),
        ("onnx", [1]),
        ("inputs", [{"name": "x", "shape": [1, "a"], "dtype": "", "stored": ""}]),
    ],
)
def test_a_damaged_layer_is_refused(field: str, value: Any) -> None:
    with pytest.raises(LenetTrtError):
        checked({**EngineLayer("x").as_dict(), field: value}, EngineLayer, "it", wanted="a layer", fix="")
