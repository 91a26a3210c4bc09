"""A ``Reshape`` to the shape that is there does not hide what it stands in; another one stays."""

from __future__ import annotations

import pytest
from onnx import parser

from lenet_trt.fuse.normal_form import attention_form


@pytest.mark.parametrize(
    ("given", "target", "given_shape", "left"),
    [
        ("2, 3, 8", "2, 3, 8", "2, 3, 8", []),
        ("2, 3, 8", "0, -1, 8", "2, 3, 8", []),
        ("n, 3, 8", "-1, 3, 8", "n, 3, 8", []),  # the number of elements tells the open size
        ("2, 3, 8", "3, 2, 8", "3, 2, 8", ["Reshape"]),
        ("2, 3, 8", "6, 8", "6, 8", ["Reshape"]),
        ("n, m, 8", "-1, 3, 8", "k, 3, 8", ["Reshape"]),
    ],
)
def test_a_reshape_that_changes_nothing_is_gone(given: str, target: str, given_shape: str, left: list[str]) -> None:
    count = len(target.split(","))
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[{given}] x) => (float[{given_shape}] y) <int64[{count}] shape = {{{target}}}> {{
          same = Reshape(x, shape)
          y = Tanh(same)
        }}""")
    assert [node.op_type for node in attention_form(model).nodes] == [*left, "Tanh"]


@pytest.mark.parametrize(("first", "left"), [("0", []), ("2", ["Concat"])])
def test_a_concat_with_nothing_is_gone(first: str, left: list[str]) -> None:
    whole = 6 + int(first)
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[2, {first}] a, float[2, 6] x) => (float[2, {whole}] y) {{
          both = Concat<axis = 1>(a, x)
          y = Tanh(both)
        }}""")
    assert [node.op_type for node in attention_form(model).nodes] == [*left, "Tanh"]
