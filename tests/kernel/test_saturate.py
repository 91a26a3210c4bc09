"""Quantization in NumPy: equal to ONNX's own reference, and what a check says of integers that differ."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.kernel.examples import disagreement
from lenet_trt.kernel.saturate import dequantize, is_quantized, quantize
from lenet_trt.kernel.types import numpy_dtype


def by_onnx(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=axis),
    ]
    outputs = [helper.make_tensor_value_info(name, 0, None) for name in ("q", "y")]
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        outputs,
        [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(zero, "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    q, y = ReferenceEvaluator(model).run(None, {"x": x})
    return q, y


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("per_channel", [False, True])
def test_it_is_what_onnx_says(dtype: str, axis: int, per_channel: bool) -> None:
    random = np.random.default_rng(3)
    channels = (6, 4, 5)[axis] if per_channel else ()
    limits = np.iinfo(dtype)
    scale = random.uniform(0.1, 2, channels).astype(np.float32)
    zero = random.integers(limits.min, limits.max + 1, channels).astype(dtype)
    x = (random.normal(size=(6, 4, 5)) * 100).astype(np.float32)
    numbers, values = by_onnx(x, scale, zero, axis)
    found = quantize(x, scale, dtype, zero, axis)
    assert found.dtype == numbers.dtype
    assert (found == numbers).all()
    assert (dequantize(found, scale, zero, axis) == values).all()


def test_rounding_saturation_and_float8() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 127.4, 127.5, 1e9, -1e9], np.float32)
    assert quantize(x, 1.0, "int8").tolist() == [0, 2, 2, 0, -2, 127, 127, 127, -128]
    assert quantize(x, 1.0, "uint8").tolist() == [0, 2, 2, 0, 0, 127, 128, 255, 0]
    assert dequantize(np.array([3, -4], np.int8), 0.5).tolist() == [1.5, -2]
    float8 = quantize(np.array([1e9, -1e9, 17, 19, 0.1], np.float32), 1.0, "float8_e4m3fn")
    assert float8.dtype == numpy_dtype("float8_e4m3fn")
    assert float8.astype(np.float32).tolist() == [448, -448, 16, 20, 0.1015625]


def test_which_types_are_integers_with_a_scale() -> None:
    assert is_quantized("int8")
    assert not is_quantized("int32")
    assert not is_quantized("float8_e4m3fn")


def test_integers_are_compared_as_integers() -> None:
    wanted = np.array([[1.0, -128.0], [127.0, 0.0]])
    right = wanted.astype(np.int8)
    assert disagreement(right, wanted, 0.0) is None
    wrong = right.copy()
    wrong[1, 0] = 126
    for tolerance in (0.0, 0.5):  # by a norm it would be within 1%
        assert disagreement(wrong, wanted, tolerance) == (
            "1 of 4 integers differ; the first, at [1, 0], is 126 and not 127"
        )
    floats = wanted.astype(np.float32) * np.float32(1.001)
    assert disagreement(floats, wanted, 1e-2) is None
    assert "relative error 1.00e-03, more than 1e-04" in str(disagreement(floats, wanted, 1e-4))
