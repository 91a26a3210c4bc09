"""Shapes of a model whose file notes intermediate tensors with axes of unknown names, as torch's exporter does."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from lenet_trt.onnx_model.shapes import known

KINDS = [TensorProto.FLOAT, TensorProto.FLOAT16]


def scattered(kind: int) -> ModelProto:
    """Zeros of the size of x, into which a constant is scattered."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], "size"),
        helper.make_node(
            "ConstantOfShape", ["size"], ["zeros"], "zeros", value=helper.make_tensor("", kind, [1], [0.0])
        ),
        helper.make_node("ScatterElements", ["zeros", "index", "x"], ["sums"], "sums", axis=1, reduction="add"),
        helper.make_node("Concat", ["x", "sums"], ["y"], "y", axis=1),
    ]
    unknown = [helper.make_tensor_value_info(name, kind, ["unk__0", "unk__1"]) for name in ("zeros", "sums")]
    graph = helper.make_graph(
        nodes,
        "scattered",
        [
            helper.make_tensor_value_info("x", kind, ["n", 4]),
            helper.make_tensor_value_info("index", TensorProto.INT64, ["n", 4]),
        ],
        [helper.make_tensor_value_info("y", kind, ["n", 8])],
        value_info=unknown,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 100_000])
def test_axes_of_unknown_names_do_not_hide_sizes(kind: int, n: int) -> None:
    found = known(scattered(kind), {"n": n})
    assert found.tensors["sums"].shape == (n, 4)
    assert found.tensors["zeros"].shape == (n, 4)
