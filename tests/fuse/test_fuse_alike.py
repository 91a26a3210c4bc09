"""What only looks like a layer that a kernel computes stays as it is, or computes the same when it is replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.normal_form import normal_forms
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

RANDOM = np.random.default_rng(0)


def model_of(
    nodes: list[onnx.NodeProto], shape: tuple[Any, ...], tensors: dict[str, np.ndarray], rank: int, outputs: str = "y"
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def assert_same(model: onnx.ModelProto, fused: onnx.ModelProto, *shape: int) -> None:
    onnx.checker.check_model(fused, full_check=True)
    values = RANDOM.normal(size=shape).astype(np.float32)
    for one, other in zip(run(model, x=values), run(fused, x=values), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Pow"])
def test_an_operation_with_a_matrix_is_no_dense_layer(op_type: str) -> None:
    model = model_of([helper.make_node(op_type, ["x", "w"], ["y"])], (4, 4), {"w": np.abs(floats(4, 4))}, 2)
    assert used(fuse(model).model) == []
    assert [node.op_type for node in normal_forms(model)[0].nodes] == [op_type]


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 2, 3, 4), (4,)])
def test_a_product_of_other_ranks_is_no_dense_layer(shape: tuple[int, ...]) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    model = model_of(nodes, shape, {"w": floats(4, 5), "b": floats(5)}, len(shape))
    fused = fuse(model).model
    assert used(fused) == []
    assert_same(model, fused, *shape)


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("output", [1, 2])
def test_a_sum_is_a_layers_bias_only_if_nothing_else_reads_the_product(read: bool, output: int) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    if read and output == 1:
        nodes.append(helper.make_node("Neg", ["p"], ["z"]))
    outputs = "y" if not read else "y z" if output == 1 else "y p"
    model = model_of(nodes, ("n", 4), {"w": floats(4, 5), "b": floats(5)}, 2, outputs)
    fused = fuse(model).model
    assert used(fused) == ["dense_bias_relu"]
    assert ("Add" in [node.op_type for node in fused.graph.node]) is read
    assert_same(model, fused, 3, 4)


def test_a_product_added_to_itself_is_no_bias() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "p"], ["y"])]
    model = model_of(nodes, ("n", 4), {"w": floats(4, 5)}, 2)
    fused = fuse(model).model
    assert_same(model, fused, 3, 4)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1, 1), (1, 3, 1, 1), (1, 1, 1), (5, 6), (1, 3, 5, 6)])
def test_a_sum_after_a_convolution_is_its_bias_only_by_channel(shape: tuple[int, ...]) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["c", "b"], ["y"])]
    if shape == (5,):
        shape = (6,)  # by column
    model = model_of(nodes, ("n", 2, 9, 10), {"w": floats(3, 2, 5, 5), "b": floats(*shape)}, 4)
    fused = fuse(model).model
    assert used(fused) == ["conv5x5_bias"]
    assert ("Add" in [node.op_type for node in fused.graph.node]) is (shape not in [(3, 1, 1), (1, 3, 1, 1)])
    assert_same(model, fused, 2, 2, 9, 10)


@pytest.mark.parametrize(
    ("inputs", "drops"), [([], False), (["r"], False), (["r", "no"], False), (["r", "yes"], True), (["", "x"], True)]
)
def test_dropout_is_nothing_only_outside_training(inputs: list[str], drops: bool) -> None:
    if inputs == ["", "x"]:
        inputs = ["r", "computed"]
    tensors: dict[str, np.ndarray] = {"w": floats(5, 4), "b": floats(5), "r": np.array(0.5, np.float32)}
    tensors |= {"no": np.array(False), "yes": np.array(True), "few": np.array(0, np.int64)}
    nodes = [
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Greater", ["size", "few"], ["computed"]),
        helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1),
        helper.make_node("Dropout", ["p", *inputs], ["d"], seed=1),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    fused = fuse(model_of(nodes, ("n", 4), tensors, 2)).model
    assert used(fused) == ["dense_bias_relu"]
    assert ("Dropout" in [node.op_type for node in fused.graph.node]) is drops
    assert ("Relu" in [node.op_type for node in fused.graph.node]) is drops


def test_a_dropouts_mask_that_is_read_keeps_it() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1),
        helper.make_node("Dropout", ["p"], ["d", "mask"]),
        helper.make_node("Relu", ["d"], ["y"]),
        helper.make_node("Cast", ["mask"], ["z"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, ("n", 4), {"w": floats(5, 4), "b": floats(5)}, 2, "y z")
    fused = fuse(model).model
    assert [node.op_type for node in fused.graph.node] == ["dense_bias_relu", "Dropout", "Relu", "Cast"]
    assert_same(model, fused, 3, 4)


@pytest.mark.parametrize(
    ("inputs", "factor", "stays"),
    [
        ("Div p f", np.ones((), np.float32), False),
        ("Div p f", np.ones((1, 1), np.float32), False),
        ("Mul f p", np.ones(1, np.float32), False),
        ("Div f p", np.ones((), np.float32), True),
        ("Div p f", np.full((), 2, np.float32), True),
        ("Div p f", np.ones((1, 1, 1), np.float32), True),
    ],
)
@pytest.mark.parametrize("relu", [True, False])
def test_a_factor_of_one_is_nothing(inputs: str, factor: np.ndarray, stays: bool, relu: bool) -> None:
    op_type, *names = inputs.split()
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1)]
    nodes += [helper.make_node(op_type, names, ["d" if relu else "y"])]
    nodes += [helper.make_node("Relu", ["d"], ["y"])] * relu
    model = model_of(nodes, ("n", 4), {"w": floats(5, 4), "b": floats(5), "f": factor}, max(2, factor.ndim))
    fused = fuse(model).model
    left = [op_type, *["Relu"] * relu] if stays else []
    assert [node.op_type for node in fused.graph.node] == ["dense_bias_relu", *left]
    assert_same(model, fused, 3, 4)


def test_a_factor_of_one_behind_what_others_read_stays_in_the_file() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1),
        helper.make_node("Div", ["p", "f"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
        helper.make_node("Neg", ["p"], ["z"]),
    ]
    model = model_of(nodes, ("n", 4), {"w": floats(5, 4), "b": floats(5), "f": np.ones((), np.float32)}, 2, "y z")
    fused = fuse(model).model
    assert [node.op_type for node in fused.graph.node] == ["dense_bias_relu", "Div", "Relu", "Neg"]
    assert_same(model, fused, 3, 4)


def test_fusing_in_two_runs_leaves_one_function_a_kernel() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("MaxPool", ["s"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    model = model_of(nodes, ("n", 2, 16, 16), {"w": floats(3, 2, 5, 5)}, 4)
    once = fuse(model, "maxpool2").model
    twice = fuse(once, "auto").model
    assert used(twice) == ["conv5x5_bias", "maxpool2", "maxpool2"]
    assert [function.name for function in twice.functions] == ["maxpool2", "conv5x5_bias"]
    assert_same(model, twice, 2, 2, 16, 16)


def test_a_pool_met_after_one_that_was_replaced_shares_its_function() -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    once = fuse(model_of(nodes, ("n", 2, 16, 16), {}, 4)).model
    more = onnx.ModelProto()
    more.CopyFrom(once)
    more.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, 8, 8]))
    more.graph.node.append(helper.make_node("MaxPool", ["y"], ["z"], kernel_shape=[2, 2], strides=[2, 2]))
    more.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [None] * 4))
    twice = fuse(more).model
    assert used(twice) == ["maxpool2", "maxpool2"]
    assert [function.name for function in twice.functions] == ["maxpool2"]
    assert_same(more, twice, 2, 2, 16, 16)


@pytest.mark.parametrize("spy", ["", "turned", "flat"])
def test_a_transposed_flattening_that_something_else_reads_is_kept(spy: str) -> None:
    """The transpose moves into the weight only where nothing else sees the values in that order."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 3, 1]),
        helper.make_node("Flatten", ["turned"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1),
    ]
    if spy:
        nodes.append(helper.make_node("Flatten", [spy], ["seen"]))
        nodes.append(helper.make_node("Gemm", ["seen", "w", "b"], ["z"], transB=1))
    model = model_of(nodes, ("n", 2, 3, 4), {"w": floats(5, 24), "b": floats(5)}, 2, "y z" if spy else "y")
    fused = fuse(model).model
    assert "dense_bias_relu" in used(fused)
    assert_same(model, fused, 3, 2, 3, 4)
    moved = any("channels_first" in name for graph in normal_forms(model) for name in graph.constants)
    assert moved is (not spy)


@pytest.mark.parametrize("perm", [[0, 3, 1, 2], [0, 1, 3, 2], [0, 2, 1, 3]])
def test_another_transposition_before_flattening_is_kept(perm: list[int]) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=perm),
        helper.make_node("Flatten", ["turned"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1),
    ]
    model = model_of(nodes, ("n", 2, 3, 4), {"w": floats(5, 24), "b": floats(5)}, 2)
    assert "Transpose" in [node.op_type for node in normal_forms(model)[0].nodes]
    assert_same(model, fuse(model).model, 3, 2, 3, 4)


def test_every_default_is_dropped_and_nothing_else() -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["a"], alpha=0.5),
        helper.make_node("LogSoftmax", ["a"], ["s"], axis=-1),
        helper.make_node("Elu", ["s"], ["y"], alpha=1.0),
    ]
    (form,) = normal_forms(model_of(nodes, ("n", 4), {}, 2))
    assert [node.attributes for node in form.nodes] == [{"alpha": 0.5}, {}, {}]
