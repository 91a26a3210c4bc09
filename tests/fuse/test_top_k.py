"""TopK along the last axis is found in every opset; its indices stay int64; others are left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def model_of(opset: int = 17, shape: tuple[Any, ...] = ("n", 4, 40), k: int = 7, **attributes: Any) -> onnx.ModelProto:
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "indices"], **attributes)],
        "top k",
        [make("x", TensorProto.FLOAT, shape)],
        [
            make("values", TensorProto.FLOAT, [None] * len(shape)),
            make("indices", TensorProto.INT64, [None] * len(shape)),
        ],
        [numpy_helper.from_array(np.array([k], np.int64), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def rows_with_ties(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)


def assert_same(model: onnx.ModelProto, fused: onnx.ModelProto, x: np.ndarray) -> None:
    onnx.checker.check_model(fused, full_check=True)
    for got, wanted in zip(run(fused, x=x), run(model, x=x), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("opset", range(10, 24))
@pytest.mark.parametrize("axis", [None, -1, 2])
def test_it_is_found_in_every_opset(opset: int, axis: int | None) -> None:
    model = model_of(opset, **({} if axis is None else {"axis": axis}))
    fused = fuse(model, "topk").model
    assert used(fused) == ["topk"]
    (node,) = (node for node in fused.graph.node if node.domain == DOMAIN)
    assert {entry.name: entry.i for entry in node.attribute}["k"] == 7
    assert_same(model, fused, rows_with_ties(3, 4, 40))


@pytest.mark.parametrize("attributes", [{"axis": 1}, {"largest": 0}, {"sorted": 0}])
def test_others_are_left(attributes: dict[str, Any]) -> None:
    assert used(fuse(model_of(k=3, **attributes), "all").model) == []


@pytest.mark.parametrize(("k", "kernels"), [(1, ["topk"]), (128, ["topk"]), (129, [])])
def test_more_than_the_kernel_ranks_is_left(k: int, kernels: list[str]) -> None:
    model = model_of(shape=(2, 300), k=k)
    assert used(fuse(model, "all").model) == kernels


def test_a_number_that_the_network_computes_is_left() -> None:
    model = model_of(shape=(3, 40))
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, [1]))
    del graph.initializer[:]
    assert used(fuse(model, "all").model) == []


def test_two_numbers_are_two_bodies_of_one_function() -> None:
    model = model_of(shape=(3, 40), k=7)
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([3], np.int64), "few"))
    graph.node.append(helper.make_node("TopK", ["values", "few"], ["best", "places"]))
    graph.output.append(helper.make_tensor_value_info("places", TensorProto.INT64, [None, None]))
    fused = fuse(model, "topk").model
    assert used(fused) == ["topk", "topk"]
    assert_same(model, fused, rows_with_ties(3, 40))
