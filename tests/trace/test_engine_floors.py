"""Floors of engines: in the types that the layer information says, with the ONNX model and without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lenet_trt.floors.engine import engine_work
from lenet_trt.floors.floor import Ceilings
from lenet_trt.floors.layers import members
from lenet_trt.floors.work import NodeWork
from lenet_trt.report.stage import content_of
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.engine import traced_work, with_layers
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline, load_timeline, save
from nsys_file import NsysFile
from traced import CEILINGS, call, kernel, node, repeated
from trtexec_files import profile

GEMM = "fc1"
# A product of 64 rows with 1 000 000 weights: 8 us by its bytes in float, 4 us in half, at 1 byte a picosecond.
M, K, N = 64, 1000, 1000
FLOPS = 2 * M * K * N
BYTES = M * K + K * N + M * N  # elements


def model_node() -> Any:
    found = node(GEMM, "Gemm", read=4 * (M * K + K * N), written=4 * M * N, flops=FLOPS, arithmetic="split")
    return replace(found, weights=K * N)


def layer(dtype: str, name: str = GEMM, weights: bool = True, **more: Any) -> EngineLayer:
    return EngineLayer(
        name,
        inputs=(LayerTensor("x", (M, K), dtype),),
        outputs=(LayerTensor("y", (M, N), dtype),),
        weights=(LayerTensor("Weights", (K * N,), dtype),) if weights else (),
        **{"kind": "MatrixMultiply", "depth": K, **more},
    )


def traced(kernel_name: str = "gemm", layers: tuple[EngineLayer, ...] = ()) -> Timeline:
    trace = repeated(60, [call(0, 1), kernel(2, 52, GEMM, kernel_name)], runtime="tensorrt")
    return with_layers(trace, layers)


def roof(trace: Timeline, nodes: list[NodeWork], ceilings: Ceilings = CEILINGS) -> float | None:
    row = ledger_of(trace, traced_work(trace, nodes), ceilings).row(GEMM)
    assert row is not None
    return row.roof_us


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("bfloat16", 2), ("int8", 1)])
@pytest.mark.parametrize("weights", [True, False], ids=["weights listed", "weights of the model"])
def test_the_floor_of_a_layer_is_in_the_type_that_it_uses(dtype: str, size: int, weights: bool) -> None:
    found = roof(traced(layers=(layer(dtype, weights=weights),)), [model_node()])
    assert found == pytest.approx(size * BYTES / 1e6, rel=1e-6)


def test_the_arithmetic_follows_the_layer() -> None:
    wide = replace(CEILINGS, read_bytes_per_s=1e18, write_bytes_per_s=1e18, copy_bytes_per_s=1e18)
    halves = roof(traced(layers=(layer("float16"),)), [model_node()], wide)
    floats = roof(traced(layers=(layer("float32"),)), [model_node()], wide)
    quick = roof(traced(layers=(layer("float32", tactic="sm80_xmma_gemm_f32f32_tf32f32_f32_tn"),)), [], wide)
    eighths = roof(traced(layers=(layer("float8_e4m3fn"),)), [], wide)
    assert halves == pytest.approx(FLOPS / 2e14 * 1e6, rel=1e-5)
    assert floats == pytest.approx(FLOPS / (2e14 / 3) * 1e6, rel=1e-5)
    assert quick == pytest.approx(FLOPS / 1e14 * 1e6, rel=1e-5)
    assert eighths == pytest.approx(FLOPS / 4e14 * 1e6, rel=1e-5)


def test_without_the_model_the_layers_alone_give_the_floor() -> None:
    found = engine_work([layer("float16")])
    assert [(entry.node, entry.op, entry.work.flops) for entry in found] == [(GEMM, "MatMul", FLOPS)]
    assert found[0].work.read_bytes == 2 * (M * K + K * N)
    assert found[0].work.written_bytes == 2 * M * N
    assert not found[0].estimated


def test_a_layer_whose_operations_nobody_tells_has_the_floor_of_its_bytes() -> None:
    (found,) = engine_work([layer("float16", kind="ForeignNode", depth=None)])
    assert (found.work.flops, found.work.total_bytes, found.estimated) == (0, 2 * BYTES, True)


def test_fused_nodes_are_one_layer_with_the_operations_of_all() -> None:
    relu = node("relu", "Relu", read=4, written=4, flops=7)
    (found,) = engine_work([layer("float16", "fc1 + relu")], [model_node(), relu])
    assert (found.op, found.work.flops, found.model_nodes) == ("Gemm + Relu", FLOPS + 7, ("fc1", "relu"))
    assert found.work.total_bytes == 2 * BYTES


def test_operations_of_a_node_that_two_layers_share_are_counted_once() -> None:
    found = engine_work(
        [layer("float16", "a", onnx=("fc1", "r")), layer("float16", "b", onnx=("fc1",))], [model_node()]
    )
    assert [entry.work.flops for entry in found] == [FLOPS, 0]


def test_a_slice_reads_no_more_than_it_gives() -> None:
    taken = EngineLayer(
        "s", inputs=(LayerTensor("x", (1000,), "float32"),), outputs=(LayerTensor("y", (10,), "float32"),)
    )
    (found,) = engine_work([taken], [node("s", "Slice", read=40, written=40)])
    assert (found.work.read_bytes, found.work.written_bytes) == (40, 40)


def test_a_layer_with_one_unknown_tensor_is_left_out() -> None:
    known = layer("float16")
    open_axis = replace(known, outputs=(LayerTensor("y", None, "float16"),))
    nameless = replace(known, inputs=(LayerTensor("x", (M, K), ""),))
    assert engine_work([open_axis], [model_node()]) == engine_work([nameless]) == []


def test_constants_among_the_inputs_are_counted_once() -> None:
    """TensorRT's compiler lists a layer's constants as inputs."""
    listed = layer("float16", weights=False)
    listed = replace(listed, inputs=(*listed.inputs, LayerTensor("w", (K, N), "float16")))
    (found,) = engine_work([listed], [model_node()])
    assert found.work.total_bytes == 2 * BYTES


def test_layers_of_one_node_run_one_after_the_other() -> None:
    """A product that is computed in parts: each part reads and writes, and the operations are those of one."""
    parts = [layer("float16", "part 1", onnx=(GEMM,)), layer("float16", "part 2", onnx=(GEMM,))]
    (found,) = engine_work(parts, [model_node()])
    assert (found.node, found.model_nodes) == (GEMM, (GEMM,))
    assert (found.work.flops, found.work.total_bytes) == (FLOPS, 2 * 2 * BYTES)


def test_reformats_and_layers_without_types_have_no_floor() -> None:
    names = EngineLayer("fc2")
    moved = replace(layer("float16"), kind="Reformat", name="Reformatting CopyNode for Input Tensor 0 to fc1")
    assert engine_work([names, moved, layer("float16")], [node("fc2", read=4)]) == engine_work([layer("float16")])


def test_without_types_the_floor_is_the_models() -> None:
    trace = traced(layers=(EngineLayer(GEMM),))
    assert roof(trace, [model_node()]) == pytest.approx(4 * BYTES / 1e6, rel=1e-6)


@pytest.mark.parametrize("types", ["f16f16", "bf16bf16", "i8i8"])
def test_a_kernel_in_narrower_types_than_the_model_has_no_floor_and_it_says_so(types: str) -> None:
    name = f"sm80_xmma_gemm_{types}_f16f32_f32_tn_n_tilesize64x64x64"
    books = ledger_of(traced(name), [model_node()], CEILINGS)
    row = books.row(GEMM)
    assert row is not None
    assert (row.roof_us, row.terms.unjudged_us) == (None, 50)
    assert any("layer information" in note for note in books.notes)
    half = replace(model_node(), arithmetic="fp16")
    assert ledger_of(traced(name), [half], CEILINGS).floor_known


def layer_information(dtype: str) -> str:
    tensors = {
        "Inputs": [{"Name": "x", "Dimensions": [M, K], "Format/Datatype": dtype}],
        "Outputs": [{"Name": "y", "Dimensions": [M, N], "Format/Datatype": dtype}],
    }
    product = {"ParameterType": "MatrixMultiply", "MatrixOpA": "NONE", "Weights": {"Type": dtype, "Count": K * N}}
    row = {"Name": GEMM, "LayerType": "MatrixMultiply", **tensors, **product}
    return json.dumps({"Layers": [row], "Bindings": []})


def test_a_report_of_trtexecs_exports_alone_has_floors(tmp_path: Path) -> None:
    (tmp_path / "layers.json").write_text(layer_information("Half"))
    (tmp_path / "profile.json").write_text(profile([(GEMM, 0.05)]))
    trace = timeline_from(tmp_path / "profile.json", tmp_path / "layers.json")
    content = content_of(trace, ceilings=CEILINGS)
    assert content.floor_us == pytest.approx(2 * BYTES / 1e6, rel=1e-5)
    assert content.missing == {}
    assert [(point.node, point.bytes) for point in content.roofline()] == [(GEMM, 2 * BYTES)]
    save(trace, tmp_path / "t.json")
    assert load_timeline(tmp_path / "t.json") == trace


def test_layer_information_beside_a_trace_of_nsys_names_nodes_and_types(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for at in (0, 1_000_000):
        made.range("ExecutionContext::enqueue", at, at + 9_000, domain="TensorRT")
        made.range(GEMM, at + 100, at + 5_000, domain="TensorRT")
        made.launch("sm80_xmma_gemm_f16f16_f16f32_f32_tn", at + 10_000, at + 60_000, at + 1_000)
    (tmp_path / "layers.json").write_text(layer_information("Row major linear FP16 format"))
    trace = timeline_from(made.done(), tmp_path / "layers.json")
    assert {entry.node for entry in trace.activities} == {GEMM}
    assert roof(trace, []) == pytest.approx(2 * BYTES / 1e6, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("conv1 + relu1", ["conv1", "relu1"]),
        ("PWN(relu1)", ["relu1"]),
        ("PWN(PWN(sigmoid), mul)", ["sigmoid", "mul"]),
        ("PWN(PWN(PWN(sigmoid), PWN(mul)), relu1)", ["relu1", "sigmoid", "mul"]),
        ("conv1 + PWN(relu1) [profile 1]", ["conv1", "relu1"]),
        ("conv1 || conv2", ["conv1", "conv2"]),
        ("{ForeignNode[conv1...conv2]}", ["conv1", "relu1", "conv2"]),
        ("{ForeignNode[onnx::Conv_11 + (Unnamed Layer* 5) [Shuffle]...conv2]}", ["conv2"]),
        ("{ForeignNode[conv1 + (Unnamed Layer* 5) [Shuffle]...conv2]}", ["conv1", "relu1", "conv2"]),
        ("Reformatting CopyNode for Input Tensor 0 to conv1", []),
        ("Reformatting CopyNode for Output Tensor 0 to {ForeignNode[conv1...conv2]}", []),
        ("/layer(1)/conv", ["/layer(1)/conv"]),
        ("something else", []),
    ],
)
def test_the_names_of_layers_lead_to_the_models_nodes(name: str, held: list[str]) -> None:
    nodes = [node(each) for each in ("conv1", "relu1", "conv2", "sigmoid", "mul", "/layer(1)/conv")]
    assert [entry.node for entry in members(name, nodes)] == held


def test_a_layer_tells_its_shapes_with_their_types() -> None:
    (found,) = engine_work([layer("float16")])
    assert found.shapes == "64x1000 float16 -> 64x1000 float16"
    scalar = EngineLayer("s", inputs=(LayerTensor("x", (), "int32"),), outputs=(LayerTensor("y", (2,), "float32"),))
    assert engine_work([scalar])[0].shapes == "1 int32 -> 2 float32"
