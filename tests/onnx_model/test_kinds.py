"""The arithmetic that a model's element types mean: each type its own, and none for another."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from lenet_trt.onnx_model.precision import kinds_of

KINDS = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.DOUBLE: "fp64",
    TensorProto.INT8: "int8",
    TensorProto.FLOAT8E4M3FN: "fp8",
}


@pytest.mark.parametrize(("elem_type", "kind"), KINDS.items(), ids=KINDS.values())
def test_a_type_has_its_own_kind(elem_type: int, kind: str) -> None:
    x, y = (helper.make_tensor_value_info(name, elem_type, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "graph", [x, y][:1], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    assert set(kinds_of(model)) == {kind}
