"""RMS norms are found in every way that exporters write them, and what is no RMS norm stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

SQUARES = {"power": "Pow(x, two)", "product": "Mul(x, x)"}
NORMALS = {
    "reciprocal": "inverse = Reciprocal(root) normal = Mul(x, inverse)",
    "one over": "inverse = Div(one, root) normal = Mul(inverse, x)",
    "divided": "normal = Div(x, root)",
}
SCALED = {"behind": "Mul(normal, scale)", "before": "Mul(scale, normal)"}


def model_of(
    square: str = SQUARES["power"],
    normal: str = NORMALS["reciprocal"],
    scaled: str = SCALED["before"],
    opset: int = 18,
    more: str = "",
    before: str = "x = Identity(a)",
    outputs: str = "float[n, 5, 12] y",
    axis: int = -1,
) -> onnx.ModelProto:
    """Return y = RMSNormalization(x) of a [n, 5, 12]; ``before`` says what x is."""
    mean = f"ReduceMean<axes = [{axis}]>(squares)" if opset < 18 else "ReduceMean(squares, axes)"
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g (float[n, 5, 12] a, float[n, 5, 12] b) => ({outputs})
        <float two = {{2.0}}, float one = {{1.0}}, float epsilon = {{1e-5}}, int64[1] axes = {{{axis}}},
         float[12] scale> {{
          {before} squares = {square} mean = {mean} raised = Add(mean, epsilon) root = Sqrt(raised)
          {normal} y = {scaled} {more}
        }}""")
    scale = np.random.default_rng(1).normal(size=12).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(scale, "scale"))
    onnx.checker.check_model(model, full_check=True)
    return model


def plugins_alike(model: onnx.ModelProto, kernel: str) -> list[str]:
    """Fuse a model, compare it with the plain one, and return its plugins and the other nodes that compute."""
    fused = fuse(model, [kernel]).model
    onnx.checker.check_model(fused, full_check=True)
    inputs = {name: np.random.default_rng(n).normal(size=(3, 5, 12)).astype(np.float32) for n, name in enumerate("ab")}
    for seen, wanted in zip(run(fused, **inputs), run(model, **inputs), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    left = [
        node.op_type for node in fused.graph.node if not node.domain and node.op_type not in ("Identity", "Reshape")
    ]
    return [*plugin_nodes(fused).values(), *left]


@pytest.mark.parametrize("opset", [13, 17, 18, 22])
@pytest.mark.parametrize("scaled", SCALED.values(), ids=SCALED)
@pytest.mark.parametrize("normal", NORMALS.values(), ids=NORMALS)
@pytest.mark.parametrize("square", SQUARES.values(), ids=SQUARES)
def test_every_way_to_write_it(square: str, normal: str, scaled: str, opset: int) -> None:
    assert plugins_alike(model_of(square, normal, scaled, opset), "rms_norm") == ["rms_norm"]


@pytest.mark.parametrize("before", ["x = Div(a, b)", "x = Reciprocal(a)"])
@pytest.mark.parametrize("normal", NORMALS.values(), ids=NORMALS)
def test_what_divides_before_it_stays(normal: str, before: str) -> None:
    model = model_of(normal=normal, before=before)
    fused = fuse(model, ["rms_norm"]).model
    left = [node.op_type for node in fused.graph.node if not node.domain and node.op_type != "Reshape"]
    assert left == [before.split()[2].partition("(")[0]]
    inputs = {
        name: np.random.default_rng(n).uniform(1, 2, (3, 5, 12)).astype(np.float32) for n, name in enumerate("ab")
    }
    (seen,), (wanted,) = run(fused, **inputs), run(model, **inputs)
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, 2])
def test_the_last_axis_by_its_number(axis: int) -> None:
    assert plugins_alike(model_of(axis=axis), "rms_norm") == ["rms_norm"]


@pytest.mark.parametrize("opset", [17, 18])
def test_a_sum_and_its_norm_are_one_kernel(opset: int) -> None:
    model = model_of(
        opset=opset, before="x = Add(a, b)", more="z = Relu(x)", outputs="float[n, 5, 12] y, float[n, 5, 12] z"
    )
    assert plugins_alike(model, "add_rms_norm") == ["add_rms_norm", "Relu"]


@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_the_node_of_opset_23(epsilon: float | None) -> None:
    more = {} if epsilon is None else {"epsilon": epsilon}
    node = helper.make_node("RMSNormalization", ["x", "scale"], ["y"], axis=-1, **more)
    scale = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=12).astype(np.float32), "scale")
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 12]) for name in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:], [scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    fused = fuse(model, ["rms_norm"]).model
    assert list(plugin_nodes(fused).values()) == ["rms_norm"]
    x = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    (seen,) = run(fused, x=x)
    raised = np.square(x.astype(np.float64)).mean(-1, keepdims=True) + (1e-5 if epsilon is None else epsilon)
    np.testing.assert_allclose(seen, x / np.sqrt(raised) * onnx.numpy_helper.to_array(scale), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model_of(axis=1), id="another axis"),
        pytest.param(model_of(square="Mul(x, b)"), id="no square"),
        pytest.param(model_of(normal="inverse = Div(two, root) normal = Mul(x, inverse)"), id="two over the root"),
        pytest.param(model_of(normal="inverse = Reciprocal(root) normal = Mul(b, inverse)"), id="of another tensor"),
        pytest.param(model_of(scaled="Mul(normal, b)"), id="no constant"),
        pytest.param(
            model_of(more="z = Identity(root)", outputs="float[n, 5, 12] y, float[n, 5, 1] z"), id="a root that is read"
        ),
        pytest.param(model_of(square="Pow(x, one)"), id="another power"),
        pytest.param(
            model_of(opset=17, before="m = ReduceMean<axes = [-1]>(a) x = Sub(a, m)"), id="distances from a mean"
        ),
    ],
)
def test_what_is_no_rms_norm_stays(model: onnx.ModelProto) -> None:
    with pytest.raises(LenetTrtError, match="no place for it"):
        fuse(model, ["rms_norm"])


def test_casts_that_change_nothing_are_not_between_plugins() -> None:
    """transformers computes the norm in float: of a float model TorchScript's exporter leaves such casts."""
    model = model_of(
        before="s = Add(a, b) x = Cast<to = 1>(s)", more="z = Relu(x)", outputs="float[n, 5, 12] y, float[n, 5, 12] z"
    )
    assert plugins_alike(model, "add_rms_norm") == ["add_rms_norm", "Relu"]


def half_model(
    behind: str, before: str = "x = Cast<to = 1>(a)", outputs: str = "float16[n, 5, 12] y", squared: str = "x"
) -> onnx.ModelProto:
    """Return an RMS norm of a [n, 5, 12] in fp16 that is computed in float32; ``behind`` is what follows the root."""
    random = np.random.default_rng(1)
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 18]>
        g (float16[n, 5, 12] a) => ({outputs})
        <float two = {{2.0}}, float epsilon = {{1e-5}}, int64[1] axes = {{-1}}, float16[12] scale, float[12] wide> {{
          {before} squares = Pow({squared}, two) mean = ReduceMean(squares, axes) raised = Add(mean, epsilon)
          root = Sqrt(raised) inverse = Reciprocal(root) normal = Mul(x, inverse) {behind}
        }}""")
    for name, kind in (("scale", np.float16), ("wide", np.float32)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.normal(size=12).astype(kind), name))
    onnx.checker.check_model(model, full_check=True)
    return model


SCALED_BEHIND = "narrow = Cast<to = 10>(normal) y = Mul(scale, narrow)"  # LLaMA in half precision
SCALED_BEFORE = "scaled = Mul(normal, wide) y = Cast<to = 10>(scaled)"  # Gemma
TWO_CASTS = "x = Cast<to = 1>(a) c = Cast<to = 1>({})"


@pytest.mark.parametrize(
    "model",
    [
        half_model(SCALED_BEHIND),
        half_model(SCALED_BEFORE),
        half_model(SCALED_BEHIND, TWO_CASTS.format("a"), squared="c"),  # TorchScript's exporter, of diffusers
    ],
    ids=["scaled behind", "scaled before", "two casts"],
)
def test_what_half_precision_computes_in_float32_is_one_kernel(model: onnx.ModelProto) -> None:
    fused = fuse(model, ["rms_norm"]).model
    onnx.checker.check_model(fused, full_check=True)
    assert [node.op_type for node in fused.graph.node if node.op_type != "Reshape"] == ["rms_norm"]
    a = np.random.default_rng(0).normal(size=(3, 5, 12)).astype(np.float16)
    (seen,), (wanted,) = run(fused, a=a), run(model, a=a)
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=4e-3)


@pytest.mark.parametrize(
    "model",
    [
        half_model(SCALED_BEHIND + " z = Relu(x)", outputs="float16[n, 5, 12] y, float[n, 5, 12] z"),
        half_model(SCALED_BEFORE.replace("wide", "each"), before="x = Cast<to = 1>(a) each = Add(wide, x)"),
        half_model(SCALED_BEHIND, "b = Relu(a) " + TWO_CASTS.format("b"), squared="c"),
    ],
    ids=["its input in float32 is read elsewhere", "scale of each element", "casts of two values"],
)
def test_what_is_wanted_in_float32_stays_so(model: onnx.ModelProto) -> None:
    with pytest.raises(LenetTrtError, match="no place for it"):
        fuse(model, ["rms_norm"])


def test_a_result_in_float32_is_computed_in_float32() -> None:
    fused = fuse(half_model("y = Mul(wide, normal)", outputs="float[n, 5, 12] y"), ["rms_norm"]).model
    assert [node.op_type for node in fused.graph.node if node.op_type != "Reshape"] == ["Cast", "rms_norm"]
