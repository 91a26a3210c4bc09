"""fp16 and bf16 conversion, judged by ONNX Runtime and by the ONNX reference."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.build.difference import outputs_difference
from lenet_trt.build.evaluate import evaluate, random_inputs
from lenet_trt.onnx_model.precision import convert, has_fp32_gemm, kinds_of
from lenet_trt.runtimes.ort import runner


@pytest.fixture(scope="module")
def model(lenet5: Path) -> onnx.ModelProto:
    return onnx.load(lenet5)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(1).random((64, 1, 28, 28), dtype=np.float32)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_arithmetic_is_narrow_and_the_outside_is_not(
    model: onnx.ModelProto, images: np.ndarray, precision: str, tolerance: float
) -> None:
    converted = convert(model, precision)
    assert precision in kinds_of(converted)
    assert not has_fp32_gemm(converted)
    assert has_fp32_gemm(model)
    assert [value.type.tensor_type.elem_type for value in (*converted.graph.input, *converted.graph.output)] == [
        TensorProto.FLOAT
    ] * 2
    exact, narrow = (runner(each)({"images": images})[0] for each in (model, converted))
    error = np.linalg.norm(narrow - exact) / np.linalg.norm(exact)
    assert 1e-6 < error < tolerance


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_the_emulation_agrees_with_the_onnx_reference(
    model: onnx.ModelProto, images: np.ndarray, precision: str
) -> None:
    converted = convert(model, precision)
    exact = runner(model)({"images": images})[0]
    reference = ReferenceEvaluator(converted).run(None, {"images": images})[0]
    found = runner(converted)({"images": images})[0]
    # Sums run in another order, so that a rounding may fall the other way, but by no more than the type's own error.
    assert np.abs(found - reference).max() <= np.abs(reference - exact).max() * 2


def test_bf16_constants_come_from_float32_not_from_fp16() -> None:
    big = helper.make_tensor("big", TensorProto.FLOAT, [1], [1e9])  # beyond fp16
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "big"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [big],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (value,) = runner(convert(model, "bf16"))({"x": np.ones(1, np.float32)})[0]
    assert value == pytest.approx(1e9, rel=0.01)


@pytest.mark.parametrize(("precision", "filled"), [("fp16", 1000.5), ("bf16", 1e9)])
def test_what_fills_a_shape_is_converted_too(precision: str, filled: float) -> None:
    fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [filled])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["filled"], value=fill),
        helper.make_node("Mul", ["x", "filled"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    (found,) = runner(convert(model, precision))({"x": np.ones((3, 2), np.float32)})
    assert found == pytest.approx(filled, rel=0.01)
    assert precision in kinds_of(convert(model, precision))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_what_the_file_says_of_a_weight_that_stays_in_float32(precision: str) -> None:
    """torch's dynamo exporter declares the types of weights too, and the scales of a Resize stay floats."""
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 6, 8])
    said = helper.make_tensor_value_info("scales", TensorProto.FLOAT, [4])
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    graph = helper.make_graph([node], "g", [x], [y], [scales], value_info=[said])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    given = {"x": np.random.default_rng(0).random((1, 2, 3, 4), np.float32)}
    (wanted,), (found,) = runner(model)(given), runner(convert(model, precision))(given)
    assert found == pytest.approx(wanted, abs=0.01)
    assert precision in kinds_of(convert(model, precision))


def test_fp32_is_the_model_itself(model: onnx.ModelProto) -> None:
    assert convert(model, "fp32") is model


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_accuracy_on_the_test_set(model: onnx.ModelProto, precision: str) -> None:
    evaluation = evaluate(convert(model, precision), model, {})
    assert evaluation.total == 10_000
    assert evaluation.correct_before == 9934
    assert abs(evaluation.drop_points) <= 0.2
    assert evaluation.problem is None


def test_another_model_is_compared_on_random_inputs() -> None:
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    evaluation = evaluate(convert(model, "fp16"), model, {"x": (50, 3)})
    assert evaluation.correct is None
    assert evaluation.difference is not None
    assert 0 < evaluation.difference < 1e-3


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_a_model_that_is_narrow_outside_too_is_compared(kind: int) -> None:
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    inputs = random_inputs(model, {"x": (50, 3)})
    (found,) = runner(model)(inputs)
    exact = np.exp(inputs["x"].astype(np.float64))
    assert 0 < np.linalg.norm(found - exact) / np.linalg.norm(exact) < 1e-2


@pytest.mark.parametrize(
    ("found", "wanted", "difference"),
    [
        ([np.nan, 1.0], [3.0, 4.0], np.inf),
        ([np.inf, 4.0], [3.0, 4.0], np.inf),
        ([3.0, 4.0], [np.nan, 4.0], np.inf),
        ([np.nan, 4.5], [np.nan, 4.0], 0.125),
        ([-np.inf, 4.0], [np.inf, 4.0], np.inf),
        ([0.0, 0.5], [0.0, 0.0], 0.5),
    ],
)
def test_nan_and_infinity_on_one_side_alone_are_no_small_difference(
    found: list[float], wanted: list[float], difference: float
) -> None:
    same = np.ones(2, np.float32)
    outputs, reference = (np.array(values, np.float32) for values in (found, wanted))
    assert outputs_difference([same, outputs], [same, reference]) == pytest.approx(difference)
    assert outputs_difference([outputs, same], [reference, same]) == pytest.approx(difference)


def test_a_digit_classifier_is_not_right_where_it_gives_nan(model: onnx.ModelProto) -> None:
    """NaN everywhere makes 0 the largest class, which a tenth of the images are."""
    lost = onnx.ModelProto()
    lost.CopyFrom(model)
    last = next(tensor for tensor in lost.graph.initializer if tensor.name == "fc3.bias")
    last.CopyFrom(onnx.numpy_helper.from_array(np.full(10, np.nan, np.float32), last.name))
    evaluation = evaluate(lost, model, {})
    assert (evaluation.correct, evaluation.correct_before) == (0, 9934)


BRANCHES = """
    k = CastLike(factors, x)
    a = Mul(x, k)
    y = If (c) <
        then_branch = then () => ({T}[4] r) {{ r = Mul(a, k) }},
        else_branch = other () => ({T}[4] s) <float[4] o = {{0.1, 0.2, 0.3, 0.7}}> {{
            q = CastLike(o, a)
            w = Add(a, q)
            s = Exp(w)
        }}
    >
"""
LOOP = """
    k = CastLike(factors, x)
    three = Constant <value = int64 {{3}}> ()
    yes = Constant <value = bool {{1}}> ()
    last, each = Loop (three, yes, x) <body = once (int64 i, bool on, {T}[4] v) => (bool still, {T}[4] u, {T}[4] o) {{
        still = Identity(on)
        u = Mul(v, k)
        o = If (c) <
            then_branch = then () => ({T}[4] r) {{ t = Sin(u)  r = Add(t, x) }},
            else_branch = other () => ({T}[4] s) {{ s = Identity(k) }}
        >
    }}>
    sum = ReduceSum <keepdims = 0> (each, first)
    y = Add(sum, last)
"""


def branching(nodes: str, kind: str) -> onnx.ModelProto:
    text = (
        f'<ir_version: 10, opset_import: ["" : 22]> g ({kind}[4] x, bool c) => ({kind}[4] y) '
        f"<float[4] factors = {{1.1, 2.2, -3.3, 0.4}}, int64[1] first = {{0}}> {{ {nodes.format(T=kind)} }}"
    )
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("nodes", [BRANCHES, LOOP], ids=["If", "Loop"])
def test_branches_and_loops_are_emulated_too(nodes: str, condition: bool) -> None:
    """What they capture from the outer graph, their constants and what a loop carries are float32 with them."""
    given = {"x": np.array([0.123, 0.5, 0.7, -0.9], np.float32), "c": np.array(condition)}
    model = branching(nodes, "float")
    (exact,) = runner(model)(given)
    (found,) = runner(convert(model, "fp16"))(given)
    assert 0 < np.linalg.norm(found - exact) / np.linalg.norm(exact) < 2e-3
    narrow = {"x": given["x"].astype(np.float16), "c": given["c"]}
    (reference,) = ReferenceEvaluator(branching(nodes, "float16")).run(None, narrow)
    (found,) = runner(branching(nodes, "float16"))(narrow)
    assert found.dtype == np.float16
    assert np.allclose(found, reference, rtol=2e-3)
    wide = {"x": given["x"].astype(ml_dtypes.bfloat16), "c": given["c"]}
    (found,) = runner(branching(nodes, "bfloat16"))(wide)  # ONNX Runtime has no kernels for it
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 2e-2


def test_what_cannot_be_run_is_said(model: onnx.ModelProto) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[0].op_type = "Unheard"
    assert "Unheard" in str(evaluate(other, model, {}).problem)
