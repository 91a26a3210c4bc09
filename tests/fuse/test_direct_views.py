"""Plugins that follow each other are connected without the Reshapes that would end in the shape of the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from plain_runtime import run

WIDTH = 64
TARGETS = {"other": [5, -1, WIDTH], "half": [0, 0, 2, WIDTH // 2]}


def dense(x: str, y: str, relu: bool = True, w: str = "w") -> list[onnx.NodeProto]:
    """Return a dense layer over the last axis, which is one plugin."""
    last = f"{y}.sum" if relu else y
    nodes = [
        helper.make_node("MatMul", [x, w], [f"{y}.product"]),
        helper.make_node("Add", [f"{y}.product", "b"], [last]),
    ]
    return [*nodes, helper.make_node("Relu", [last], [y])] if relu else nodes


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], name=output, **attributes)


def model_of(
    nodes: list[onnx.NodeProto], outputs: Sequence[str] = ("z",), x: Sequence[Any] = (2, 5)
) -> onnx.ModelProto:
    random = np.random.default_rng(1)
    shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "half_w": (WIDTH // 2, WIDTH)}
    arrays: dict[str, Any] = {name: random.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays |= {name: np.array(shape, np.int64) for name, shape in TARGETS.items()}
    read = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*x, WIDTH])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items() if name in read],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def fused(model: onnx.ModelProto, sizes: tuple[int, ...] = (2, 5)) -> list[str]:
    """Return the operators of the fused model, which computes the same; nothing in it is there for nobody."""
    result = fuse(model, ["linear"]).model
    onnx.checker.check_model(result, full_check=True)
    x = np.random.default_rng(2).normal(size=(*sizes, WIDTH)).astype(np.float32)
    for seen, wanted in zip(run(result, x), run(model, x), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    nodes = result.graph.node
    read = {name for each in nodes for name in each.input} | {value.name for value in result.graph.output}
    made = {name for each in nodes for name in each.output}
    assert made <= read
    assert {tensor.name for tensor in result.graph.initializer} <= read
    assert {value.name for value in result.graph.value_info} <= made
    return [each.op_type for each in nodes]


@pytest.mark.parametrize("x", [(2, 5), ("n", 5)], ids=str)
def test_one_plugin_reads_what_another_one_gives(x: tuple[Any, ...]) -> None:
    nodes = [*dense("x", "a"), *dense("a", "c"), *dense("c", "z")]
    assert fused(model_of(nodes, x=x)) == ["Reshape", "linear", "linear", "linear", "Reshape"]


def test_sizes_that_are_computed_for_such_a_view_go_too() -> None:
    nodes = [*dense("x", "a"), *dense("a", "z")]
    assert fused(model_of(nodes, x=("n", "length"))) == ["Reshape", "Shape", "linear", "linear", "Reshape"]


def test_what_others_read_keeps_its_view() -> None:
    nodes = [*dense("x", "a"), *dense("a", "c", relu=False), node("Add", ["a", "c"], "z")]
    assert fused(model_of(nodes)) == ["Reshape", "linear", "Reshape", "linear", "Reshape", "Add"]


def test_an_output_of_the_network_keeps_its_view() -> None:
    nodes = [*dense("x", "a"), *dense("a", "z")]
    assert fused(model_of(nodes, ["a", "z"])) == ["Reshape", "linear", "Reshape", "linear", "Reshape"]


@pytest.mark.parametrize("perm", [None, [1, 0, 2]], ids=str)
def test_a_view_of_the_network_goes_between_them_and_a_movement_stays(perm: list[int] | None) -> None:
    moved = [node("Transpose", ["a"], "t", perm=perm)] if perm else [node("Reshape", ["a", "other"], "t")]
    operators = fused(model_of([*dense("x", "a"), *moved, *dense("t", "z")]))
    assert operators.count("Transpose") == (perm is not None)
    assert operators.count("Reshape") == (4 if perm else 2)


def test_rows_of_another_length_are_a_view() -> None:
    nodes = [*dense("x", "a"), node("Reshape", ["a", "half"], "t"), *dense("t", "z", w="half_w")]
    assert fused(model_of(nodes)).count("Reshape") > 2
