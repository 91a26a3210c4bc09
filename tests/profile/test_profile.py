"""The profile verb on a machine without a GPU: ONNX Runtime's own times of real runs, and traces made elsewhere."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.files import sha256_file
from lenet_trt.fuse.stage import fuse
from lenet_trt.profile.ort import named
from lenet_trt.profile.stage import profile_model
from lenet_trt.trace.timeline import Activity, Iteration, Timeline, load_timeline, save
from nsys_file import NsysFile

NODES = [node.name for node in onnx.load(SHIPPED).graph.node]


def nodes_of(timeline: Timeline) -> set[str]:
    return {activity.node for activity in timeline.activities if activity.node is not None}


def test_lenet5_on_the_cpu() -> None:
    timeline = profile_model(SHIPPED, "ort-cpu", batch=32, iterations=7)
    assert timeline.source.startswith("ONNX Runtime ")
    assert (timeline.model, timeline.model_sha256) == ("lenet5.onnx", sha256_file(SHIPPED))
    assert (timeline.runtime, timeline.sizes) == ("ort", {"n": 32})
    assert timeline.environment["shapes"] == {"images": [32, 1, 28, 28]}
    assert timeline.unprofiled_us is not None
    assert timeline.unprofiled_us > 0
    assert [entry.index for entry in timeline.iterations] == list(range(7))
    assert timeline.iterations[0].start_us == 0
    for entry in timeline.iterations:
        mine = [activity for activity in timeline.activities if activity.iteration == entry.index]
        assert {activity.kind for activity in mine} == {"layer"}
        assert all(entry.start_us <= activity.start_us <= activity.end_us <= entry.end_us for activity in mine)
        assert 0 < sum(activity.us for activity in mine) <= entry.us
    # What ONNX Runtime fuses is its own affair, but the large layers are always there.
    assert {"conv1", "conv2", "fc1", "fc2", "fc3"} <= nodes_of(timeline) <= set(NODES)


def test_the_nodes_of_a_fused_model_are_its_plugins(tmp_path: Path) -> None:
    model = fuse(onnx.load(SHIPPED)).model
    path = tmp_path / "fused.onnx"
    onnx.save(model, path)
    timeline = profile_model(path, "ort-cpu", iterations=3)
    assert nodes_of(timeline) == {node.name for node in model.graph.node} == {"lenet5"}


def test_on_the_cpu_nothing_is_transferred() -> None:
    assert any("--transfers" in note for note in profile_model(SHIPPED, "ort-cpu", iterations=1, transfers=True).notes)


def test_several_inputs_of_several_types(tmp_path: Path) -> None:
    path = tmp_path / "two.onnx"
    nodes = [helper.make_node("Gather", ["a", "i"], ["g"]), helper.make_node("Relu", ["g"], ["y"], name="relu")]
    graph = helper.make_graph(
        nodes,
        "two",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", "m"]),
            helper.make_tensor_value_info("i", TensorProto.INT64, ["k"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["k", "m"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    timeline = profile_model(path, "ort-cpu", batch=5, sizes={"m": 3}, iterations=2)
    assert timeline.sizes == {"n": 5, "m": 3, "k": 5}
    assert nodes_of(timeline) == {"g", "relu"}  # a node without a name goes by its result
    timeline = profile_model(path, "ort-cpu", shapes={"a": (4, 6), "i": (9,)}, iterations=2)
    assert timeline.sizes == {"n": 4, "m": 6, "k": 9}
    with pytest.raises(UsageError, match=r"the axis m of a has no size: give --sizes m=N, or --shapes a:1x224$"):
        profile_model(path, "ort-cpu", batch=5)
    with pytest.raises(UsageError, match="there is no axis q"):
        profile_model(path, "ort-cpu", sizes={"q": 3})


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"batch": 0}, UsageError, "--batch 0: wanted at least 1"),
        ({"iterations": 0}, UsageError, "--iterations 0: wanted at least 1"),
        ({"warmup": -1}, UsageError, "--warmup -1: wanted at least 0"),
        ({"recorder": "vtune"}, UsageError, "--with vtune: wanted one of auto, nsys"),
        ({"runtime": "tpu"}, UsageError, "--runtime tpu: wanted one of"),
        ({"shapes": {"y": (1, 1, 28, 28)}}, UsageError, "there is no input y"),
        (
            {"shapes": {"images": (1, 3, 28, 28)}},
            UsageError,
            r"images:1x3x28x28: the network has images \[n, 1, 28, 28\]",
        ),
        ({"runtime": "tensorrt"}, UsageError, "is not an engine"),
        ({"recorder": "cupti"}, LenetTrtError, "does no GPU work, so --with cupti has nothing to trace"),
    ],
)
def test_what_cannot_be_says_so(options: dict[str, object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        profile_model(SHIPPED, **{"runtime": "ort-cpu", **options})  # type: ignore[arg-type]


def test_a_batch_for_fixed_shapes_is_refused_unless_it_is_theirs(tmp_path: Path) -> None:
    model = networks.model_of(networks.LENET5)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    path = tmp_path / "fixed.onnx"
    onnx.save(model, path)
    with pytest.raises(UsageError, match="shapes are fixed"):
        profile_model(path, "ort-cpu", batch=3)
    assert profile_model(path, "ort-cpu", batch=4, iterations=1).sizes == {}


def test_a_model_that_fails_is_an_error_of_the_model(tmp_path: Path) -> None:
    missing = tmp_path / "missing.onnx"
    with pytest.raises(LenetTrtError, match=r"missing.onnx does not exist"):
        profile_model(missing, "ort-cpu")
    path = tmp_path / "fails.onnx"
    rows = numpy_helper.from_array(np.array([7], dtype=np.int64), "i")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="gather")],
        "fails",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [rows],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(LenetTrtError, match=r"ONNX Runtime failed.*gather"):
        profile_model(path, "ort-cpu", batch=2)


def test_the_verb_prints_tables_and_writes_the_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "profile",
        str(SHIPPED),
        "--runtime",
        "ort-cpu",
        "--batch",
        "4",
        "--iterations",
        "3",
        "-o",
        str(tmp_path),
    ]
    assert main(command) == 0
    printed = capsys.readouterr().out
    timeline = load_timeline(tmp_path / "timeline.json")
    assert timeline.command == f"lenet-trt {' '.join(command)}"
    assert str(tmp_path / "timeline.json") in printed.splitlines()
    assert "lenet5.onnx (n=4) on ONNX Runtime" in printed
    assert "conv2" in printed
    assert f"an inference, untraced:  {timeline.unprofiled_us:.1f} us" in printed
    assert [f"note: {note}" for note in timeline.notes] == [x for x in printed.splitlines() if x.startswith("note:")]


def test_the_verb_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, output = tmp_path / "mine.onnx", tmp_path / "mine.json"  # no engine, whose sidecar would have this name
    shutil.copy(SHIPPED, model)
    assert main(["profile", str(model), "--runtime", "ort-cpu", "--iterations", "2", "--json", "-o", str(output)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["timeline"] == str(output)
    assert facts["report"] is None
    assert (facts["iterations"], facts["sizes"]) == (2, {"n": 1})
    assert facts["profiled_us"] > 0
    assert {row["name"] for row in facts["nodes"]["rows"]} > {"conv1", "fc3"}


def test_the_verb_reads_a_trace_made_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = NsysFile(tmp_path / "theirs.sqlite")
    file.range("iteration 0", 1_000, 90_000)
    file.range("conv", 1_500, 9_000)
    file.launch("their_kernel", 20_000, 25_000, host=2_000)
    trace, output = file.done(), tmp_path / "out.json"
    assert main(["profile", str(SHIPPED), "--from", str(trace), "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "their_kernel" in printed
    assert "an inference, traced:    89.0 us" in printed
    timeline = load_timeline(output)
    assert timeline.model == os.path.relpath(SHIPPED, tmp_path)
    assert [(a.name, a.node, a.us) for a in timeline.activities] == [("their_kernel", "conv", 5.0)]


def test_the_verb_takes_a_timeline_back(tmp_path: Path) -> None:
    given = Timeline("x", iterations=(Iteration(0, 0, 5),), activities=(Activity("kernel", "k", 1, 2, iteration=0),))
    save(given, tmp_path / "a.json")
    assert main(["profile", "--from", str(tmp_path / "a.json"), "-o", str(tmp_path / "b.json")]) == 0
    assert load_timeline(tmp_path / "b.json").activities == given.activities


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "give MODEL, or an existing trace"),
        (["nowhere.onnx"], 1, "nowhere.onnx does not exist"),
        (["--from", "nowhere.sqlite"], 1, "nowhere.sqlite does not exist"),
        (["nowhere.engine", "--trtexec", "--batch", "3"], 2, "give --shapes"),
        ([str(SHIPPED), "--shapes", "x"], 2, "--shapes x: wanted NAME:1x3x28x28"),
    ],
)
def test_bad_calls(
    arguments: list[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *arguments, "-o", str(tmp_path / "t.json")]) == status
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_names_given_to_nodes_lead_back_to_the_file() -> None:
    model = fuse(onnx.load(SHIPPED), ["conv5x5_bias_relu_pool2"]).model
    found = named(model)
    names = [node.name for node in found.model.graph.node]
    assert len(set(names)) == len(names)
    assert not found.model.functions
    assert set(found.origins.values()) == {node.name for node in model.graph.node}
    assert found.origin("fused fc1", "FusedGemm") == "fc1"
    assert found.origin("ReorderOutput", "ReorderOutput") is None
