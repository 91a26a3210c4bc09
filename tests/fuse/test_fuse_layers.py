"""What a single layer says is heeded: coefficients, layouts, and where padding goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.normal_form import normal_forms
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

RANDOM = np.random.default_rng(0)


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[int | str]], tensors: dict[str, np.ndarray], rank: int
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{index}" for index in range(rank)])],
        [numpy_helper.from_array(np.asarray(array, np.float32, order="C"), name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def assert_same(model: onnx.ModelProto, fused: onnx.ModelProto, **inputs: np.ndarray) -> None:
    onnx.checker.check_model(fused, full_check=True)
    (seen,), (wanted,) = run(fused, **inputs), run(model, **inputs)
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


@settings(max_examples=60)
@given(
    alpha=st.sampled_from([None, 1.0, 0.5, -2.0]),
    beta=st.sampled_from([None, 1.0, 0.0, 3.0]),
    transposed=st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, 0, 1])),
    bias=st.sampled_from([None, (), (1,), (5,), (1, 5), (4, 1), (4, 5)]),
    relu=st.booleans(),
)
def test_a_gemm_with_any_attributes_computes_the_same_when_fused(
    alpha: float | None,
    beta: float | None,
    transposed: tuple[int | None, int | None],
    bias: tuple[int, ...] | None,
    relu: bool,
) -> None:
    given = {"alpha": alpha, "beta": beta, "transA": transposed[0], "transB": transposed[1]}
    attributes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    tensors = {"w": RANDOM.normal(size=(5, 3) if transposed[1] else (3, 5))}
    if bias is not None:
        tensors["b"] = RANDOM.normal(size=bias)
    nodes = [helper.make_node("Gemm", ["x", *tensors], ["p" if relu else "y"], **attributes)]
    nodes += [helper.make_node("Relu", ["p"], ["y"])] if relu else []
    shape = (3, 4) if transposed[0] else (4, 3)
    model = model_of(nodes, {"x": list(shape)}, tensors, 2)
    fused = fuse(model).model
    plain = alpha in (None, 1.0) and beta in (None, 1.0) and not transposed[0] and bias not in ((4, 1), (4, 5))
    assert used(fused) == (["dense_bias_relu"] if plain else [])
    assert_same(model, fused, x=RANDOM.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("op_type", ["Conv", "MaxPool"])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"),
    [
        ((7, 8), 5, 1, 1),
        ((8, 9), 4, 1, 1),
        ((9, 12), 2, 2, 1),
        ((11, 8), 4, 3, 1),
        ((9, 9), 1, 3, 1),
    ],
)
def test_padding_is_written_out_as_onnx_runtime_pads(
    op_type: str, auto_pad: str, size: tuple[int, int], kernel: int, stride: int, dilation: int
) -> None:
    """The normal form has pads in numbers; a file with these pads computes what the one with auto_pad does."""
    if op_type == "MaxPool" and kernel < stride and auto_pad.startswith("SAME"):
        pytest.skip("ONNX Runtime refuses to pool over fewer values than a stride has and to pad")
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2}
    tensors = {"w": RANDOM.normal(size=(2, 2, kernel, kernel)), "b": RANDOM.normal(size=2)} if op_type == "Conv" else {}
    inputs = {"x": [1, 2, *size]}
    model = model_of(
        [helper.make_node(op_type, ["x", *tensors], ["y"], auto_pad=auto_pad, **window)], inputs, tensors, 4
    )
    (form,) = normal_forms(model)
    (node,) = form.nodes
    assert "auto_pad" not in node.attributes
    written = model_of([helper.make_node(op_type, ["x", *tensors], ["y"], **node.attributes)], inputs, tensors, 4)
    assert_same(model, written, x=RANDOM.normal(size=(1, 2, *size)).astype(np.float32))


@pytest.mark.parametrize(("auto_pad", "pads"), [("SAME_UPPER", [1, 2, 2, 2]), ("SAME_LOWER", [2, 2, 1, 2])])
def test_a_dilated_window_is_padded_by_its_reach(auto_pad: str, pads: list[int]) -> None:
    """12 by 13 at stride 2 gives 6 by 7, as ONNX says; ONNX Runtime refuses such a Conv."""
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [2, 2]}
    tensors = {"w": RANDOM.normal(size=(2, 2, 3, 3)), "b": RANDOM.normal(size=2)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], auto_pad=auto_pad, **attributes)
    (form,) = normal_forms(model_of([node], {"x": [1, 2, 12, 13]}, tensors, 4))
    assert form.nodes[0].attributes == {**attributes, "pads": pads}
    assert form.shape("y") == (1, 2, 6, 7)


def test_padding_that_an_unknown_size_decides_is_left() -> None:
    tensors = {"w": RANDOM.normal(size=(2, 2, 5, 5)), "b": RANDOM.normal(size=2)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], auto_pad="SAME_UPPER", kernel_shape=[5, 5])
    model = model_of([node], {"x": [1, 2, "h", 9]}, tensors, 4)
    assert used(fuse(model).model) == []
