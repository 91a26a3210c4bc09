"""What fuse does at the edges: files that share names and tensors, constants in every form, sizes nobody knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.replaceable import replaceable
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import Attribute, registry
from lenet_trt.kernel.pattern import DOMAIN, Pattern
from plain_runtime import run

RANDOM = np.random.default_rng(1)
WEIGHT = RANDOM.normal(size=(3, 4)).astype(np.float32)
BIAS = RANDOM.normal(size=3).astype(np.float32)
X = RANDOM.normal(size=(2, 4)).astype(np.float32)


def model_of(
    nodes: list[onnx.NodeProto],
    tensors: dict[str, np.ndarray],
    inputs: dict[str, list[Any]] | None = None,
    outputs: dict[str, int] | None = None,
    opset: int = 17,
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A model with these nodes, from ``x`` [n, 4] to ``y`` of two axes unless it says otherwise."""
    made = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "edge",
        [made(name, TensorProto.FLOAT, shape) for name, shape in (inputs or {"x": ["n", 4]}).items()],
        [made(name, TensorProto.FLOAT, [None] * rank) for name, rank in (outputs or {"y": 2}).items()],
        [numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    onnx.checker.check_model(model, full_check=True)
    return model


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def assert_fused(model: onnx.ModelProto, kernels: list[str], **inputs: np.ndarray) -> onnx.ModelProto:
    """These kernels are used, and the fused file computes the same."""
    fused = fuse(model).model
    assert used(fused) == kernels
    onnx.checker.check_model(fused, full_check=True)
    for got, wanted in zip(run(fused, **inputs), run(model, **inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    return fused


def gemm(value: str = "x", weight: str = "w", bias: str = "b", output: str = "y", name: str = "") -> onnx.NodeProto:
    return helper.make_node("Gemm", [value, weight, bias], [output], name=name, transB=1)


def test_a_model_without_a_place_is_given_back_as_it_is() -> None:
    model = model_of([helper.make_node("Sigmoid", ["x"], ["y"])], {}, ir_version=5, opset=10)
    before = model.SerializeToString()
    assert fuse(model).model.SerializeToString() == before


@pytest.mark.parametrize(("given", "wanted"), [(4, 8), (7, 8), (8, 8), (9, 9)])
def test_the_format_is_as_old_as_functions_allow(given: int, wanted: int) -> None:
    """A runtime that knows functions, and nothing newer, reads the fused file."""
    assert fuse(model_of([gemm()], {"w": WEIGHT, "b": BIAS}, opset=9, ir_version=given)).model.ir_version == wanted


def test_a_node_without_a_name_is_known_by_its_first_output() -> None:
    nodes = [gemm(output="p"), helper.make_node("Relu", ["p"], ["y"], name="activation")]
    assert replaceable(model_of(nodes, {"w": WEIGHT, "b": BIAS}), []) == {
        "p": "dense_bias_relu",
        "activation": "dense_bias_relu",
    }


def test_a_weight_that_two_layers_share_is_added_once() -> None:
    nodes = [
        helper.make_node("Transpose", ["v"], ["w"], perm=[1, 0]),
        gemm(output="p"),
        helper.make_node("Sigmoid", ["x"], ["s"]),
        gemm("s", output="q"),
    ]
    model = model_of(nodes, {"v": WEIGHT.T, "b": BIAS}, outputs={"p": 2, "q": 2})
    fused = assert_fused(model, ["dense_bias_relu"] * 2, x=X)
    assert sorted(list(tensor.dims) for tensor in fused.graph.initializer) == [[3], [3, 4]]


def test_a_function_of_somebody_else_may_have_a_kernels_name() -> None:
    nodes = [helper.make_node("dense_bias_relu", ["x"], ["s"], domain="theirs"), gemm("s")]
    theirs = helper.make_function(
        "theirs",
        "dense_bias_relu",
        ["x"],
        ["s"],
        [helper.make_node("Sigmoid", ["x"], ["s"])],
        [helper.make_opsetid("", 17)],
    )
    model = model_of([gemm()], {"w": WEIGHT, "b": BIAS})
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, ["n", 4]))
    model.functions.append(theirs)
    model.opset_import.add(domain="theirs", version=1)
    onnx.checker.check_model(model)
    fused = assert_fused(model, ["dense_bias_relu"], x=X)
    assert {function.domain for function in fused.functions} == {"theirs", DOMAIN}


@pytest.mark.parametrize(
    ("op_type", "shape", "more"),
    [
        ("Identity", (3, 4), {}),
        ("Transpose", (4, 3), {"perm": [1, 0]}),
        ("Squeeze", (1, 3, 4), {}),
        ("Flatten", (3, 2, 2), {}),
        ("Cast", (3, 4), {"to": TensorProto.FLOAT}),
    ],
)
def test_a_weight_that_is_only_rearranged_is_constant(op_type: str, shape: tuple[int, ...], more: Any) -> None:
    kind = np.float64 if op_type == "Cast" else np.float32
    nodes = [helper.make_node(op_type, ["v"], ["w"], **more), gemm()]
    assert_fused(model_of(nodes, {"v": RANDOM.normal(size=shape).astype(kind), "b": BIAS}), ["dense_bias_relu"], x=X)


def test_a_weight_and_a_bias_that_unsqueeze_and_reshape_make_are_constant() -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["v", "first"], ["u"]),
        helper.make_node("Reshape", ["u", "to"], ["w"]),
        gemm(),
    ]
    tensors = {"v": WEIGHT.reshape(-1), "first": np.array([0], np.int64), "to": np.array([3, 4], np.int64), "b": BIAS}
    assert_fused(model_of(nodes, tensors), ["dense_bias_relu"], x=X)


@pytest.mark.parametrize(
    ("attribute", "value", "shape"),
    [
        ("value_float", 0.5, ()),
        ("value_floats", [0.5, -1.0, 2.0], (3,)),
        ("value", numpy_helper.from_array(BIAS), (3,)),
    ],
)
def test_a_bias_may_be_a_constant_node_of_any_form(attribute: str, value: Any, shape: tuple[int, ...]) -> None:
    nodes = [helper.make_node("Constant", [], ["b"], **{attribute: value}), gemm()]
    assert_fused(model_of(nodes, {"w": WEIGHT}), ["dense_bias_relu"], x=X)


@pytest.mark.parametrize("shape", [("n", 2, "h", "w"), ("n", "c", 2, 1), ("n", 2, 2, 1)])
def test_channels_last_before_a_dense_layer_of_any_size(shape: tuple[Any, ...]) -> None:
    """Where a size is not known, the weight stays in the order that the file has."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Flatten", ["t"], ["f"]),
        gemm("f"),
    ]
    model = model_of(nodes, {"w": WEIGHT, "b": BIAS}, {"x": list(shape)})
    onnx.checker.check_model(fuse(model).model, full_check=True)
    x = RANDOM.normal(size=(2, 2, 2, 1)).astype(np.float32)
    np.testing.assert_allclose(run(fuse(model).model, x=x)[0], run(model, x=x)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("bias", [(), (1,), (1, 1), (1, 3), (3,)])
def test_a_bias_of_a_dense_layer_may_be_one_number(bias: tuple[int, ...]) -> None:
    for nodes in (
        [gemm()],
        [helper.make_node("MatMul", ["x", "v"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        [helper.make_node("MatMul", ["x", "v"], ["p"]), helper.make_node("Add", ["b", "p"], ["y"])],
    ):
        tensors = {"w": WEIGHT, "v": WEIGHT.T, "b": RANDOM.normal(size=bias).astype(np.float32)}
        read = {name for node in nodes for name in node.input}
        model = model_of(nodes, {name: array for name, array in tensors.items() if name in read})
        assert_fused(model, ["dense_bias_relu"], x=X)


def test_the_largest_choice_that_an_old_opset_can_tell_apart() -> None:
    dense = registry.kernel("dense_bias_relu")
    nodes = [gemm(output="p"), helper.make_node("Relu", ["p"], ["r"]), gemm("r", "v", output="y")]
    tensors = {"w": WEIGHT, "b": BIAS, "v": RANDOM.normal(size=(3, 3)).astype(np.float32)}
    model = model_of(nodes, tensors, opset=11, ir_version=6)
    for number, fits in ((31, True), (32, False)):
        patterns = tuple(
            Pattern(pattern.graph, {"relu": number if pattern.attributes["relu"] else 0}) for pattern in dense.patterns
        )
        other = replace(dense, attributes=(Attribute("relu", (0, number), "any number"),), patterns=patterns)
        if fits:
            assert used(fuse(model, [other]).model) == ["dense_bias_relu"] * 2
        else:
            with pytest.raises(LenetTrtError, match=f"relu is {number}"):
                fuse(model, [other])


def test_a_kernel_elsewhere_is_not_named_as_what_takes_the_nodes() -> None:
    """The dense layers lie apart from the pooling, which fits for another reason nowhere."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3]),
        helper.make_node("Flatten", ["p"], ["f"]),
        gemm("f"),
    ]
    model = model_of(nodes, {"w": WEIGHT, "b": BIAS}, {"x": ["n", 1, 4, 4]})
    with pytest.raises(LenetTrtError, match="maxpool2: the network has no place for it") as error:
        fuse(model, "dense_bias_relu,maxpool2")
    assert "asked for as well" not in str(error.value)


def test_a_dense_layer_on_the_flattened_input() -> None:
    model = model_of(
        [helper.make_node("Flatten", ["x"], ["f"]), gemm("f")], {"w": WEIGHT, "b": BIAS}, {"x": ["n", 2, 2]}
    )
    assert_fused(model, ["dense_bias_relu"], x=X.reshape(2, 2, 2))


def test_what_is_said_of_values_that_stay_is_kept() -> None:
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), gemm("s", output="p"), helper.make_node("Relu", ["p"], ["y"])]
    model = model_of(nodes, {"w": WEIGHT, "b": BIAS})
    for name, size in (("s", 4), ("p", 3)):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]))
    fused = assert_fused(model, ["dense_bias_relu"], x=X)
    assert [value.name for value in fused.graph.value_info] == ["s"]
