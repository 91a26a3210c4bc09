"""Attention nodes of opset 23 and 24, written out: the same results, and kernels and engines where there were none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.attention import written_out
from plain_runtime import run

QUERIES, KEYS, DEPTH, HEADS, BATCH = 6, 6, 8, 4, 3
SHAPES = {"q": [HEADS, QUERIES, DEPTH], "k": [HEADS, KEYS, DEPTH], "v": [HEADS, KEYS, DEPTH]}


def model_of(
    mask: tuple[int, list[int | str]] | None = None,
    opset: int = 23,
    elem_type: int = TensorProto.FLOAT,
    shapes: dict[str, list[int]] = SHAPES,
    **attributes: float,
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, elem_type, ["n", *shape]) for name, shape in shapes.items()]
    if mask is not None:
        inputs.append(helper.make_tensor_value_info("mask", *mask))
    node = helper.make_node("Attention", [value.name for value in inputs], ["y"], name="attention", **attributes)
    output = helper.make_tensor_value_info("y", elem_type, ["n", HEADS, QUERIES, DEPTH])
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    feeds = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        array = random.standard_normal([dim.dim_value or BATCH for dim in kind.shape.dim])
        bools = kind.elem_type == TensorProto.BOOL
        feeds[value.name] = array < 1 if bools else array.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds


def result(model: onnx.ModelProto) -> np.ndarray:
    return run(model, **feeds_of(model))[0]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize(
    ("mask", "attributes"),
    [
        (None, {}),
        (None, {"scale": 0.3}),
        (None, {"is_causal": 1}),
        ((TensorProto.FLOAT, [QUERIES, KEYS]), {}),
        ((TensorProto.FLOAT, ["n", 1, QUERIES, KEYS]), {"is_causal": 1}),
        ((TensorProto.BOOL, ["n", HEADS, QUERIES, KEYS]), {}),
    ],
)
def test_what_is_written_out_computes_the_same(
    opset: int, mask: tuple[int, list[int | str]] | None, attributes: dict[str, float]
) -> None:
    model = model_of(mask, opset, **attributes)
    written = written_out(model)
    assert "Attention" not in operators(written)
    onnx.checker.check_model(written, full_check=True)
    np.testing.assert_allclose(result(written), result(model), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        model_of(elem_type=TensorProto.FLOAT16),  # TensorRT has kernels for it
        model_of(softcap=5.0),
        model_of(shapes={**SHAPES, "k": [2, KEYS, DEPTH], "v": [2, KEYS, DEPTH]}),
        model_of((TensorProto.FLOAT, [QUERIES, KEYS - 1]), 24),
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 23]> g (float[n, 8] x) => (float[n, 8] y) { y = Relu(x) }'
        ),
    ],
)
def test_what_cannot_or_need_not_be_written_out_stays(model: onnx.ModelProto) -> None:
    assert written_out(model) is model


def test_half_types_are_written_out_where_it_is_asked_for() -> None:
    model = model_of(elem_type=TensorProto.FLOAT16)
    assert "Attention" not in operators(written_out(model, halves=True))


def test_its_kernels_are_found() -> None:
    model = model_of()
    fused = fuse(model, "batched_matmul,softmax").model
    assert Counter(node.op_type for node in fused.graph.node if node.domain == DOMAIN) == {
        "batched_matmul": 2,
        "softmax": 1,
    }
    np.testing.assert_allclose(result(fused), result(model), atol=1e-6)
    assert fuse(model, ["batched_matmul"]).replacements


def test_in_halves_it_is_written_out_for_plugins_that_take_all_of_it() -> None:
    model = model_of(elem_type=TensorProto.FLOAT16)
    fused = fuse(model, ["attention"]).model
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == ["attention"]
    assert "Attention" not in operators(fused)
    np.testing.assert_allclose(result(fused), result(model), atol=2e-3)
    masked = model_of(mask=(TensorProto.BOOL, ["n", 1, QUERIES, KEYS]), elem_type=TensorProto.FLOAT16)
    fused = fuse(masked, ["masked_attention"]).model  # what makes numbers of the mask is no plugin
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == ["masked_attention"]
    np.testing.assert_allclose(result(fused), result(masked), atol=2e-3)
    # TensorRT's own kernel stays where no plugin takes it, also beside one that finds a place.
    model.graph.node.append(helper.make_node("Softmax", ["y"], ["z"]))
    model.graph.output[0].name = "z"
    fused = fuse(model, ["softmax"]).model
    assert [node.domain for node in fused.graph.node if node.op_type == "softmax"] == [DOMAIN]
    assert "Attention" in operators(fused)
    assert fuse(model, "auto", []).model is model


def test_tensorrt_rtx_builds_it_in_float32(tmp_path: Path) -> None:
    """TensorRT-RTX refuses the node itself: it has kernels for half types alone."""
    onnx.save(model_of(), tmp_path / "m.onnx")
    request = BuildRequest(onnx=tmp_path / "m.onnx", output=tmp_path / "m.engine", sms=("8.6",), batch="1:2:4")
    assert build(request).engine.exists()


def test_the_graph_runtime_runs_it() -> None:
    torch = pytest.importorskip("torch")
    from lenet_trt.runtimes.graph.torch_program import TorchProgram

    model = model_of(is_causal=1)
    program = TorchProgram(model, torch.device("cpu"))
    feeds = feeds_of(model)
    (got,) = program.run([torch.from_numpy(feeds[port.name]) for port in program.inputs], {})
    np.testing.assert_allclose(got.numpy(), result(model), atol=1e-6)
