"""The graph runtime's Q/DQ: bit for bit what ONNX's own reference gives, and LeNet-5 in int8 and fp8."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.precision import convert
from lenet_trt.onnx_model.quantization import at_opset, in_float8
from lenet_trt.runtimes.ort import runner

torch = pytest.importorskip("torch")

from lenet_trt.runtimes.graph.torch_program import TorchProgram  # noqa: E402 (needs torch)


def by_torch(model: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    program = TorchProgram(model, torch.device("cpu"))
    return [output.numpy() for output in program.run([torch.from_numpy(array) for array in inputs], {})]


def q_dq(scale: np.ndarray, zero: np.ndarray | None, axis: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A Q/DQ pair on ``x``; the quantized numbers, as int32, and their values come out."""
    constants = {"scale": scale, **({} if zero is None else {"zero": zero})}
    names = list(constants)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], axis=axis, **attributes),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], axis=axis),
        helper.make_node("Cast", ["q"], ["numbers"], to=TensorProto.INT32),
    ]
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3, 5])],
        [
            helper.make_tensor_value_info("numbers", TensorProto.INT32, [4, 3, 5]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3, 5]),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn"])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), axis=st.sampled_from([0, 1, 2, -1]), per_channel=st.booleans())
def test_equal_to_onnx_with_rounding_and_saturation(dtype: str, seed: int, axis: int, per_channel: bool) -> None:
    random = np.random.default_rng(seed)
    channels = (4, 3, 5)[axis] if per_channel else ()
    scale = random.choice([0.125, 0.5, 0.03], channels).astype(np.float32)
    zero = np.zeros(channels, numpy_dtype(dtype))
    if dtype != "float8_e4m3fn":
        zero = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, channels).astype(dtype)
    model = q_dq(scale, zero, axis)
    x = (random.normal(size=(4, 3, 5)) * random.choice([1, 30, 500])).astype(np.float32)
    x.flat[::3] = random.integers(-9, 9, x[...].flat[::3].shape) * 0.0625  # half-way numbers
    # The reference overflows to NaN in float8 where ONNX asks for the largest number.
    limit = 448 * float(scale.min()) if dtype == "float8_e4m3fn" else np.inf
    x = x.clip(-limit, limit)
    numbers, values = ReferenceEvaluator(model).run(None, {"x": x})
    found_numbers, found_values = by_torch(model, x)
    assert (found_values == values).all()
    if dtype != "float8_e4m3fn":
        assert (found_numbers == numbers).all()


def test_float8_saturates_as_onnx_runtime_does() -> None:
    model = q_dq(np.array(0.5, np.float32), np.zeros((), numpy_dtype("float8_e4m3fn")))
    x = np.linspace(-1000, 1000, 60).astype(np.float32).reshape(4, 3, 5)
    _, values = by_torch(model, x)
    assert (values == runner(model)({"x": x})[1]).all()
    assert values.max() == 224


def test_without_a_zero_point_numbers_are_uint8_unless_a_type_is_named() -> None:
    x = np.linspace(-300, 300, 60).astype(np.float32).reshape(4, 3, 5)
    scale = np.array(1, np.float32)
    numbers, _ = by_torch(q_dq(scale, None), x)
    assert (numbers.min(), numbers.max()) == (0, 255)
    numbers, _ = by_torch(q_dq(scale, None, output_dtype=TensorProto.INT8), x)
    assert (numbers.min(), numbers.max()) == (-128, 127)


@pytest.mark.parametrize("kind", ["int8", "fp8", "int8-fp16"])
def test_lenet5(kind: str) -> None:
    model = lenet5_int8()
    if kind == "fp8":
        model = in_float8(model)
    if kind == "int8-fp16":
        model = convert(at_opset(model, 19), "fp16")
    images, labels = (part[:500] for part in mnist.test_set())
    x = mnist.network_input(images)
    (wanted,) = runner(model)({"images": x})
    (found,) = by_torch(model, x)
    # Sums in another order put a few numbers on the other side of a rounding step, more of them in fp16.
    assert np.linalg.norm(found - wanted) < (2e-2 if "fp16" in kind else 5e-3) * np.linalg.norm(wanted)
    assert (found.argmax(axis=1) == labels).mean() >= 0.98


def test_lenet5_in_int8_is_what_onnx_says() -> None:
    model = at_opset(lenet5_int8(), 21)  # the reference has no older Q/DQ
    x = mnist.network_input(mnist.test_set()[0][:20])
    (wanted,) = ReferenceEvaluator(model).run(None, {"images": x})
    (found,) = by_torch(model, x)
    assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)


def test_weights_are_quantized_once() -> None:
    program = TorchProgram(lenet5_int8(), torch.device("cpu"))
    assert [step.node.op for step in program.steps].count("QuantizeLinear") == 5  # activations alone


def test_what_is_not_supported_is_said() -> None:
    model = q_dq(np.array(1, np.float32), np.zeros((), np.int16))
    with pytest.raises(LenetTrtError, match=r"QuantizeLinear.*its quantized type is torch.int16; supported are"):
        by_torch(model, np.zeros((4, 3, 5), np.float32))
