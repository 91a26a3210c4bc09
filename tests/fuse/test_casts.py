"""Casts that change nothing do not hide attention, and those that change numbers stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from lenet_trt.fuse.normal_form import attention_form
from lenet_trt.fuse.stage import fuse
from plain_runtime import run

# TensorProto's numbers.
FLOAT, HALF, BRAIN, DOUBLE, INT64 = 1, 10, 16, 11, 7
NAMES = {FLOAT: "float", HALF: "float16", BRAIN: "bfloat16", DOUBLE: "double", INT64: "int64"}


def attention(kind: int, before: str = "", behind: str = "") -> onnx.ModelProto:
    """Return attention of this type whose scores and shares pass through these casts: "1 10" is to float, then half."""
    lines = ["turned = Transpose<perm = [0, 1, 3, 2]>(k)", "products = MatMul(q, turned)"]
    lines += [f"scale = Cast<to = {kind}>(quarter)", "a0 = Mul(products, scale)"]
    lines += [f"a{number} = Cast<to = {to}>(a{number - 1})" for number, to in enumerate(before.split(), 1)]
    lines.append(f"b0 = Softmax<axis = -1>(a{len(before.split())})")
    lines += [f"b{number} = Cast<to = {to}>(b{number - 1})" for number, to in enumerate(behind.split(), 1)]
    lines.append(f"y = MatMul(b{len(behind.split())}, v)")
    tensor = f"{NAMES[kind]}[2, 3, 8, 16]"
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g ({tensor} q, {tensor} k, {tensor} v) => ({tensor} y) <float quarter = {{0.25}}> {{
          {" ".join(lines)}
        }}""")
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize(
    ("kind", "before", "behind"),
    [
        (FLOAT, "", ""),
        (FLOAT, "1", "1 1"),  # torch: softmax(x, dtype=torch.float32).to(x.dtype), of a float model
        (FLOAT, "", "1 1"),
        (HALF, "1", "10"),
        (HALF, "", "1 10"),
        (HALF, "10 1", "10 10"),
        (HALF, "1 10", "1 10"),
    ],
)
def test_attention_is_found_behind_casts_that_change_nothing(kind: int, before: str, behind: str) -> None:
    model = attention(kind, before, behind)
    fused = fuse(model, ["attention"]).model
    assert [node.op_type for node in fused.graph.node if node.op_type != "Reshape"] == ["attention"]
    random = np.random.default_rng(0)
    given = {
        name: random.normal(size=(2, 3, 8, 16)).astype(np.float32 if kind == FLOAT else np.float16) for name in "qkv"
    }
    (seen,), (wanted,) = run(fused, **given), run(model, **given)
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5 if kind == FLOAT else 2e-3)


@pytest.mark.parametrize(
    ("kind", "before", "behind", "left"),
    [
        (FLOAT, "10 1", "", [HALF, FLOAT]),  # rounds
        (FLOAT, "16 1", "", [BRAIN, FLOAT]),
        (FLOAT, "7 1", "", [INT64, FLOAT]),
        (FLOAT, "", "11 1", [DOUBLE, FLOAT]),  # double is no type of these kernels
        (HALF, "16", "10", [BRAIN, HALF]),  # neither holds all numbers of the other
        (BRAIN, "10", "16", [HALF, BRAIN]),
        (HALF, "11", "10", [DOUBLE, HALF]),
    ],
)
def test_a_cast_that_may_change_numbers_stays(kind: int, before: str, behind: str, left: list[int]) -> None:
    model = attention(kind, before, behind)
    nodes = attention_form(model).nodes
    assert [node.attributes["to"] for node in nodes if node.op_type == "Cast"] == left


def test_a_softmax_in_floats_whose_result_is_read_as_floats_stays() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float16[4, 8] x) => (float16[4, 8] y, float[4, 8] z) {
          wide = Cast<to = 1>(x)
          z = Softmax<axis = -1>(wide)
          y = Cast<to = 10>(z)
        }""")
    assert [node.op_type for node in attention_form(model).nodes] == ["Cast", "Softmax", "Cast"]


def test_a_cast_of_an_output_stays() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4, 8] x) => (float[4, 8] y) {
          y = Cast<to = 1>(x)
        }""")
    assert [node.op_type for node in attention_form(model).nodes] == ["Cast"]
