"""Kernels over rows where several leading axes are open: outputs get their sizes from an input as the network runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.read import load_model
from lenet_trt.onnx_model.shapes import known
from plain_runtime import run
from sequences import arrays, encoder, sequence_model

SIZES = [(1, 1), (1, 5), (3, 1), (2, 4), (5, 3)]


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, int],
    tensors: dict[str, np.ndarray],
    opset: int,
) -> onnx.ModelProto:
    """A model of float inputs; ``outputs`` have the element types that are given, and the rank of the first input."""
    rank = len(next(iter(inputs.values())))
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, [None] * rank) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def fused_and_compared(model: onnx.ModelProto, inputs: dict[str, list[int | str]], kernel: str) -> onnx.ModelProto:
    """Fuse, and compare the outputs with those of the model for several sizes of its open axes."""
    fused = fuse(model, [kernel]).model
    onnx.checker.check_model(fused, full_check=True)
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == [kernel]
    names = list(dict.fromkeys(axis for shape in inputs.values() for axis in shape if isinstance(axis, str)))
    for sizes in product((1, 3, 4), repeat=len(names)):
        axes = dict(zip(names, sizes, strict=True))
        random = np.random.default_rng(len(names))
        given = {
            name: random.standard_normal([axes.get(str(axis), axis) for axis in shape], dtype=np.float32)
            for name, shape in inputs.items()
        }
        for got, wanted in zip(run(fused, **given), run(model, **given), strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        found = known(fused, axes)
        assert all(name in found.tensors for node in found.nodes for name in node.output)
    return fused


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
def test_a_softmax(opset: int) -> None:
    inputs: dict[str, list[int | str]] = {"x": ["batch", "sequence", 20]}
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=2)]
    fused = fused_and_compared(model_of(nodes, inputs, {"y": TensorProto.FLOAT}, {}, opset), inputs, "softmax")
    assert operators(fused) == ["Reshape", "Shape", "softmax", "Reshape"]


@pytest.mark.parametrize("opset", [11, 18])
def test_a_top_k_puts_its_k_in_the_place_of_the_length(opset: int) -> None:
    inputs: dict[str, list[int | str]] = {"x": ["batch", 2, "sequence", 20]}
    nodes = [helper.make_node("TopK", ["x", "k"], ["values", "indices"])]
    outputs = {"values": TensorProto.FLOAT, "indices": TensorProto.INT64}
    fused = fused_and_compared(model_of(nodes, inputs, outputs, {"k": np.array([4])}, opset), inputs, "topk")
    assert operators(fused).count("Concat") == 2


def test_a_top_k_of_the_whole_row_has_the_shape_of_its_input() -> None:
    inputs: dict[str, list[int | str]] = {"x": ["batch", "sequence", 5]}
    nodes = [helper.make_node("TopK", ["x", "k"], ["values", "indices"])]
    outputs = {"values": TensorProto.FLOAT, "indices": TensorProto.INT64}
    fused = fused_and_compared(model_of(nodes, inputs, outputs, {"k": np.array([5])}, 17), inputs, "topk")
    assert "Concat" not in operators(fused)


@pytest.mark.parametrize("mask", [[20], [1, 20], ["sequence", 20]])
def test_a_softmax_with_a_mask_that_is_repeated(mask: list[int | str]) -> None:
    """Of the last mask, the rows are repeated over the batch: two sizes of the folded x are open, which is too many."""
    inputs: dict[str, list[int | str]] = {"x": ["batch", "sequence", 20], "mask": mask}
    nodes = [helper.make_node("Add", ["x", "mask"], ["sum"]), helper.make_node("Softmax", ["sum"], ["y"])]
    model = model_of(nodes, inputs, {"y": TensorProto.FLOAT}, {}, 17)
    if "sequence" in mask:
        (refusal,) = fuse(model, "all").refusals
        assert refusal.kernel == "scale_add_softmax"
        assert "is not known: give open axes sizes with --sizes NAME=N" in refusal.reason
    else:
        fused_and_compared(model, inputs, "scale_add_softmax")


def test_an_add_before_a_layer_norm_gives_both_results() -> None:
    inputs: dict[str, list[int | str]] = {name: ["batch", "sequence", 8] for name in ("x", "other")}
    nodes = [
        helper.make_node("Add", ["x", "other"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["y"]),
    ]
    tensors = {name: np.linspace(start, 2, 8, dtype=np.float32) for name, start in (("scale", 1), ("bias", -1))}
    outputs = {"y": TensorProto.FLOAT, "sum": TensorProto.FLOAT}
    fused_and_compared(model_of(nodes, inputs, outputs, tensors, 17), inputs, "add_layer_norm")


def test_a_product_with_a_column_that_is_repeated() -> None:
    inputs: dict[str, list[int | str]] = {"a": ["batch", "sequence", 6, 8], "b": [8, 1]}
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, {"y": TensorProto.FLOAT}, {}, 17)
    fused_and_compared(model, inputs, "batched_matvec")


def test_a_layer_norm_and_a_softmax_one_after_the_other() -> None:
    model = sequence_model()
    fused = fuse(model, "softmax,layer_norm").model
    onnx.checker.check_model(fused, full_check=True)
    for batch, sequence in SIZES:
        given = arrays(batch, sequence)
        np.testing.assert_allclose(run(fused, **given)[0], run(model, **given)[0], rtol=0, atol=1e-6)


def test_an_encoder_of_torch_for_any_batch_and_sequence(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    model = load_model(encoder(tmp_path, dynamo=True))
    fused = fuse(model, "all").model
    used = {node.op_type for node in fused.graph.node if node.domain == DOMAIN}
    assert used == {"add_layer_norm", "dense_bias_relu", "scale_add_softmax"}
    for batch, sequence in SIZES:
        x = {"x": np.random.default_rng(batch).standard_normal((batch, sequence, 16), dtype=np.float32)}
        np.testing.assert_allclose(run(fused, **x)[0], run(model, **x)[0], rtol=0, atol=1e-6)


def test_a_length_that_is_not_known_is_refused_with_the_shape_of_the_file() -> None:
    inputs: dict[str, list[int | str]] = {"x": ["batch", "heads", "length"]}
    model = model_of([helper.make_node("Softmax", ["x"], ["y"])], inputs, {"y": TensorProto.FLOAT}, {}, 17)
    (refusal,) = fuse(model, "all").refusals
    assert refusal.reason == "more than one size of [-1, -1, -1] is not known: give open axes sizes with --sizes NAME=N"
