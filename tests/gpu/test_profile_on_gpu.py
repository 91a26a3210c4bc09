"""Tracing on a GPU: both recorders see every kernel of a replay and name its node, and agree with each other."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export.cases import MatMulCase, matmul_model
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.fuse.stage import fuse
from lenet_trt.profile import nsys
from lenet_trt.profile.request import RecorderError
from lenet_trt.profile.stage import profile_model
from lenet_trt.trace.timeline import Timeline, load_timeline

ITERATIONS = 5


def _nsys() -> str | None:
    try:
        nsys.find_profiler()
    except LenetTrtError as error:
        return str(error)
    return None


@pytest.fixture(params=["nsys", "cupti"])
def recorder(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "nsys" and (why := _nsys()) is not None:
        pytest.skip(why)
    pytest.importorskip("nvtx" if name == "nsys" else "cupti", reason="pip install 'lenet-trt[profile]'")
    return name


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "lenet5.fused.onnx"
    onnx.save(fuse(onnx.load(SHIPPED)).model, path)
    return path


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "matmul.onnx"
    onnx.save(matmul_model(MatMulCase((60, 200, 8, 1, 64))), path)
    return path


def per_iteration(timeline: Timeline) -> list[list[tuple[str, str | None]]]:
    """Kind and node of each activity, by inference, in the order of time."""
    found: list[list[tuple[str, str | None]]] = [[] for _ in timeline.iterations]
    for activity in timeline.activities:
        if activity.iteration is not None:
            found[activity.iteration].append((activity.kind, activity.node))
    return found


def checked(timeline: Timeline) -> list[tuple[str, str | None]]:
    """What holds of any traced run here; gives the activities of one inference."""
    assert len(timeline.iterations) == ITERATIONS
    assert timeline.iterations[0].start_us == 0
    assert all(a.end_us <= b.start_us for a, b in zip(timeline.iterations, timeline.iterations[1:], strict=False))
    runs = per_iteration(timeline)
    assert runs[0], timeline.notes
    assert all(run == runs[0] for run in runs)
    for activity in timeline.activities:
        assert 0 < activity.us < 1e6
        if activity.iteration is not None:
            span = timeline.iterations[activity.iteration]
            assert span.start_us <= activity.start_us
            assert activity.end_us <= span.end_us
            assert activity.correlation is not None
    launches = {call.correlation for call in timeline.api_calls}
    assert {activity.correlation for activity in timeline.activities if activity.iteration is not None} <= launches
    assert timeline.unprofiled_us is not None
    assert 0 < timeline.unprofiled_us < 10 * min(span.us for span in timeline.iterations)
    assert timeline.environment["gpu"]
    assert timeline.runtime == "graph"
    return runs[0]


def test_every_kernel_of_plain_lenet5_names_its_node(recorder: str) -> None:
    timeline = profile_model(SHIPPED, "graph", batch=64, iterations=ITERATIONS, recorder=recorder)
    run = checked(timeline)
    nodes = [node.name for node in onnx.load(SHIPPED).graph.node]
    seen = list(dict.fromkeys(node for _, node in run))
    assert None not in seen
    assert seen == [node for node in nodes if node in seen]  # in the order of the network
    assert set(nodes) - set(seen) <= {"flatten"}
    assert timeline.sizes == {"n": 64}
    kernels = [activity for activity in timeline.activities if activity.kind == "kernel" and activity.iteration == 0]
    assert all(kernel.grid and kernel.block and kernel.registers for kernel in kernels)
    assert not any(kernel.name.startswith("_Z") for kernel in kernels)
    # Times are of nanoseconds, not of what is left of nanoseconds since 1970 in a float of microseconds.
    assert any(round(kernel.us * 1e3) % 250 for kernel in kernels)


def test_the_fused_network_is_one_kernel(recorder: str, fused: Path) -> None:
    timeline = profile_model(fused, "graph", batch=8, iterations=ITERATIONS, recorder=recorder)
    assert checked(timeline) == [("kernel", "lenet5")]


def test_the_matmul_belongs_to_its_node(recorder: str, matmul: Path) -> None:
    run = checked(profile_model(matmul, "graph", iterations=ITERATIONS, recorder=recorder))
    assert {node for _, node in run} == {"matmul"}


def test_transfers_are_copies_of_these_bytes(recorder: str, fused: Path) -> None:
    timeline = profile_model(fused, "graph", batch=32, iterations=ITERATIONS, recorder=recorder, transfers=True)
    assert Counter(checked(timeline)) == {("memcpy", None): 2, ("kernel", "lenet5"): 1}
    copies = [entry for entry in timeline.activities if entry.kind == "memcpy" and entry.iteration == 0]
    assert [(copy.direction, copy.bytes) for copy in copies] == [("HtoD", 32 * 28 * 28 * 4), ("DtoH", 32 * 10 * 4)]


def test_both_recorders_see_the_same_kernels() -> None:
    pytest.importorskip("cupti")
    if (why := _nsys()) is not None:
        pytest.skip(why)
    found = []
    for recorder in ("nsys", "cupti"):
        timeline = profile_model(SHIPPED, "graph", batch=4, iterations=ITERATIONS, recorder=recorder)
        found.append([(a.kind, a.node, a.grid, a.block, a.registers) for a in timeline.activities if a.iteration == 2])
    assert found[0] == found[1]


def test_the_report_is_kept_and_knows_the_nodes_by_itself(
    fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (why := _nsys()) is not None:
        pytest.skip(why)
    assert main(["profile", str(fused), "--runtime", "graph", "--with", "nsys", "-o", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["timeline"] == str(tmp_path / "timeline.json")
    assert facts["report"] == str(tmp_path / "timeline.nsys-rep")
    assert facts["nodes"]["rows"][0]["name"] == "lenet5"
    again = tmp_path / "again.json"
    assert main(["profile", "--from", facts["report"], "-o", str(again)]) == 0
    assert "lenet5" in capsys.readouterr().out
    ours, theirs = load_timeline(Path(facts["timeline"])), load_timeline(again)
    assert per_iteration(ours) == per_iteration(theirs)


def test_onnx_runtime_on_the_cpu_is_profiled_beside_a_gpu() -> None:
    timeline = profile_model(SHIPPED, "ort-cpu", batch=4, iterations=ITERATIONS)
    assert {activity.kind for activity in timeline.activities} == {"layer"}
    with pytest.raises(LenetTrtError, match="does nothing on a GPU"):
        profile_model(SHIPPED, "ort-cpu", recorder="cupti")


def test_what_cannot_be_says_why() -> None:
    with pytest.raises(RecorderError, match="no profiler of its own"):
        profile_model(SHIPPED, "graph", recorder="own")
    with pytest.raises(UsageError, match="there is no input nothing"):
        profile_model(SHIPPED, "graph", shapes={"nothing": (1,)})
