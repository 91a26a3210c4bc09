"""Recorders from outside: nsys as it fails, what CUPTI saw, and replays whose kernels find their nodes."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.profile import nsys, ranges, session, workload
from lenet_trt.profile.cupti import Cupti, Recorded
from lenet_trt.profile.replay import with_nodes, write_parts
from lenet_trt.profile.request import (
    REPLAY,
    TIMELINE,
    RecorderError,
    TraceRequest,
    raise_failure,
    read_request,
    write_failure,
)
from lenet_trt.profile.stage import profile_model
from lenet_trt.runtimes import tensorrt
from lenet_trt.runtimes.graph.replay_log import Part
from lenet_trt.tensorrt import flavors
from lenet_trt.trace.demangle import demangled
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline, save
from nsys_file import NsysFile

Script = Callable[[str], Path]


_FAKE = """#!/usr/bin/env bash
if [ "$1" = --version ]; then
    echo "${VERSION-NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0}"
    exit
fi
verb=$1
shift
while [[ ${1:-} == --* ]]; do
    case $1 in
        --output=*) OUTPUT=${1#--output=} ;;
        --output) OUTPUT=$2; shift ;;
        --type|--force-overwrite) shift ;;
    esac
    shift
done
PROGRAM=("$@")
"""


@pytest.fixture
def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts a script in the place of nsys; OUTPUT is what --output was, PROGRAM the command line that is traced."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(body: str) -> Path:
        path = folder / "nsys"
        path.write_text(_FAKE + body + "\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_the_version_is_read(fake_nsys: Script) -> None:
    path = fake_nsys("")
    assert nsys.find_profiler() == nsys.Nsys(str(path), "2025.3.1.90-253135822126v0")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("NVIDIA Nsight Systems version 2021.2.4.12-46ae7f2", "is version 2021.2; wanted 2022.1 or newer"),
        ("nsys: error while loading shared libraries", "--version says nsys: error while loading.*wanted a version"),
        ("", "says nothing"),
    ],
)
def test_an_nsys_that_will_not_do(version: str, said: str, fake_nsys: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys("")
    monkeypatch.setenv("VERSION", version)
    with pytest.raises(RecorderError, match=said):
        nsys.find_profiler()


def test_a_program_that_is_not_nsys(fake_nsys: Script) -> None:
    fake_nsys("").write_bytes(b"\x7fELF, cut off")
    with pytest.raises(RecorderError, match="does not start"):
        nsys.find_profiler()


def test_no_nsys_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys, "find_nsys", lambda: None)
    with pytest.raises(RecorderError, match=r"install Nsight Systems .*or put its folder on the PATH"):
        nsys.find_profiler()
    with pytest.raises(RecorderError, match=r"^nsys is neither on the PATH"):
        profile_model(SHIPPED, "ort-cpu", recorder="nsys")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            'echo raw > "$OUTPUT.qdstrm"; echo "Importer error status: libdw.so.1: cannot open shared object"; exit 1',
            r"importer made no report: install the package that has libdw.so.1 .*apt-get install libdw1.*"
            r"or take --with cupti. The recording is in .*rep.qdstrm. It said: Importer error",
        ),
        (
            'echo "QdstrmImporter failed"; exit 1',
            "importer made no report: on a small image it usually lacks libdw.so.1",
        ),
        ('"${PROGRAM[@]}"; echo "No reports were generated"', r"made no report \(exit 0\). It said: .*No reports were"),
        ("exit 139", r"made no report \(exit 139\). It said: nothing"),
    ],
)
def test_an_nsys_that_makes_no_report(body: str, said: str, fake_nsys: Script, tmp_path: Path) -> None:
    fake_nsys(body)
    with pytest.raises(RecorderError, match=said):
        nsys.trace(nsys.find_profiler(), tmp_path / "rep.nsys-rep", [sys.executable, "-c", "print('ran')"], os.environ)


def test_an_older_report_is_not_taken_for_a_new_one(fake_nsys: Script, tmp_path: Path) -> None:
    (tmp_path / "rep.nsys-rep").write_text("of yesterday")
    fake_nsys("exit 1")
    with pytest.raises(RecorderError, match="made no report"):
        nsys.trace(nsys.find_profiler(), tmp_path / "rep.nsys-rep", ["true"], os.environ)


def test_the_flags_are_those_of_the_recipe() -> None:
    found = nsys.nsys_command(nsys.Nsys("nsys", "2025.3"), Path("a.b.nsys-rep"), ["./program", "--flag"])
    assert found[:2] == ["nsys", "profile"]
    assert found[-3:] == ["--output=a.b", "./program", "--flag"]
    wanted = {"--sample=none", "--cpuctxsw=none", "--capture-range=cudaProfilerApi", "--cuda-graph-trace=node"}
    assert wanted <= set(found)


REPORT = """
case $verb in
    profile) "${PROGRAM[@]}" || exit; cp "$TRACE" "$OUTPUT.nsys-rep" ;;
    export) cp "$TRACE" "$OUTPUT" ;;
esac
"""


def test_the_report_and_what_the_program_tells_become_one_timeline(
    fake_nsys: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = NsysFile(tmp_path / "trace.sqlite")
    file.range("iteration 0", 1_000, 50_000)
    launch = file.call("cuGraphLaunch", 2_000, 3_000)
    for index, name in enumerate(("a", "b", "b2")):
        file.kernel(name, 10_000 + 2_000 * index, 11_000 + 2_000 * index, launch, graphNodeId=(5 << 32) + index)
    monkeypatch.setenv("TRACE", str(file.done()))
    fake_nsys(REPORT)
    folder = tmp_path / "told"
    folder.mkdir()
    save(Timeline("nsys", runtime="graph", sizes={"n": 3}, unprofiled_us=12.5), folder / TIMELINE)
    write_parts([Part("conv", {"kernel": 1}), Part("gemm", {"kernel": 2})], folder / REPLAY)
    kept = tmp_path / "kept.nsys-rep"
    # The program is traced by the fake, and has told already.
    found = session._under_nsys(["true"], folder, kept)
    assert kept.read_bytes() == (folder / "report.nsys-rep").read_bytes()
    assert (found.runtime, found.sizes, found.unprofiled_us) == ("graph", {"n": 3}, 12.5)
    assert [(a.name, a.us, a.node) for a in found.activities] == [("a", 1, None), ("b", 1, None), ("b2", 1, None)]
    placed = with_nodes(found, [Part("conv", {"kernel": 1}), Part("gemm", {"kernel": 2})])
    assert [a.node for a in placed.activities] == ["conv", "gemm", "gemm"]


def test_a_runtime_that_nsys_cannot_see_is_refused_when_nsys_is_asked_for(fake_nsys: Script) -> None:
    fake_nsys('"${PROGRAM[@]}"')
    with pytest.raises(LenetTrtError, match="does no GPU work, so --with nsys has nothing to trace"):
        profile_model(SHIPPED, "ort-cpu", recorder="nsys")


def test_the_network_that_runs_on_the_cpu_traces_itself_under_nsys(fake_nsys: Script, tmp_path: Path) -> None:
    fake_nsys('"${PROGRAM[@]}"; echo "No reports were generated"')
    request = TraceRequest(str(SHIPPED), "ort-cpu", "nsys", iterations=2)
    found = session._by(request, None)
    assert found.source.startswith("ONNX Runtime")
    assert len(found.iterations) == 2


def test_a_recorder_that_fails_leaves_its_reason_and_the_next_is_taken(
    fake_nsys: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys("exit 3")
    monkeypatch.setattr(session, "_recorders", lambda request: ("nsys", "own"))
    found = session.traced_timeline(TraceRequest(str(SHIPPED), "ort-cpu", iterations=2))
    assert found.source.startswith("ONNX Runtime")
    assert found.notes[0].startswith("Not traced by nsys: ")
    assert "made no report (exit 3)" in found.notes[0]
    monkeypatch.setattr(session, "_recorders", lambda request: ("nsys", "nsys"))
    with pytest.raises(RecorderError, match=r"nsys: .*exit 3.*; nsys: .*exit 3"):
        session.traced_timeline(TraceRequest(str(SHIPPED), "ort-cpu", iterations=2))


def test_a_tracer_that_slows_the_network_down_is_told() -> None:
    spans = tuple(Iteration(at, at * 100.0, at * 100.0 + 30) for at in range(3))
    assert list(session._inflated(Timeline("x", iterations=spans, unprofiled_us=25.0))) == []
    (note,) = session._inflated(Timeline("x", iterations=spans, unprofiled_us=10.0))
    assert "an inference took 3.0 times as long" in note
    assert list(session._inflated(Timeline("x", iterations=spans))) == []


def test_a_request_and_a_failure_travel(tmp_path: Path) -> None:
    request = TraceRequest("m.onnx", "graph", "cupti", 3, {"n": 2}, {"x": (1, 2)}, 4, 5, True, True, True)
    request.write(tmp_path / "r.json")
    assert read_request(tmp_path / "r.json") == request
    for error in (UsageError("u"), RecorderError("r"), LenetTrtError("l")):
        write_failure(error, tmp_path / "f.json")
        with pytest.raises(type(error)) as raised:
            raise_failure(tmp_path / "f.json")
        assert type(raised.value) is type(error)
        assert str(raised.value) == str(error)


# CUPTI


def test_what_cupti_saw_becomes_a_timeline() -> None:
    recorded = Recorded(
        "13.0.1",
        activities=[
            Activity("kernel", "late", 1160, 1170, correlation=4),
            Activity("kernel", "early", 1025, 1040, correlation=2),
            Activity("kernel", "before", 910, 920, correlation=1),
        ],
        api_calls=[
            ApiCall("cuGraphLaunch", 1150, 1155, 9, 4),
            ApiCall("cuGraphLaunch", 905, 906, 9, 1),
            ApiCall("cuGraphLaunch", 1010, 1020, 9, 2),
            ApiCall("cuStreamSynchronize", 1020, 1041, 9, 3),
            ApiCall("cuProfilerStop", 1300, 1301, 9, 5),
        ],
        ranges=[HostRange("iteration 0", 1000, 1050), HostRange("iteration 1", 1145, 1180)],
    )
    found = recorded.timeline()
    assert found.iterations == (Iteration(0, 0, 50), Iteration(1, 145, 180))
    assert [(a.name, a.start_us, a.end_us, a.iteration) for a in found.activities] == [
        ("early", 25, 40, 0),
        ("late", 160, 170, 1),
    ]
    assert [(c.name, c.start_us) for c in found.api_calls] == [
        ("cuGraphLaunch", 10),
        ("cuStreamSynchronize", 20),
        ("cuGraphLaunch", 150),
    ]
    assert [r.start_us for r in found.ranges] == [0, 145]
    with pytest.raises(LenetTrtError, match="no inference"):
        replace(recorded, ranges=()).timeline()


def test_names_of_kernels_are_demangled() -> None:
    assert demangled("lenet5") == "lenet5"
    assert demangled("_Znot_a_name") == "_Znot_a_name"
    if demangled("_Z3addPfi") == "_Z3addPfi":
        pytest.skip("there is no libstdc++.so.6 here")
    assert demangled("_Z3addPfi") == "add(float*, int)"


# Replays

parts_of = st.lists(
    st.builds(
        Part,
        st.sampled_from(["conv", "relu", "gemm", None]),
        st.dictionaries(st.sampled_from(["kernel", "memset", "memcpy"]), st.integers(1, 3), min_size=1),
    ),
    min_size=1,
    max_size=6,
)


def replayed(parts: list[Part], iterations: int, around: int = 0) -> Timeline:
    """A trace of these parts, with ``around`` copies before and after each replay."""
    activities: list[Activity] = []
    for iteration in range(iterations):
        for kind, correlation in (
            *[("memcpy", -1 - at) for at in range(around)],
            *[(kind, iteration) for part in parts for kind, count in part.counts.items() for _ in range(count)],
            *[("memcpy", -100 - at) for at in range(around)],
        ):
            start = 10.0 * len(activities)
            activities.append(
                Activity(kind, "k", start, start + 4, iteration=iteration, correlation=correlation)  # type: ignore[arg-type]
            )
    launches = [ApiCall("cuGraphLaunch", 0, 1, 0, iteration) for iteration in range(iterations)]
    return Timeline("test", activities=tuple(activities), api_calls=tuple(launches))


@given(parts_of, st.integers(1, 3), st.integers(0, 2))
def test_each_part_of_a_replay_gets_its_node(parts: list[Part], iterations: int, around: int) -> None:
    found = with_nodes(replayed(parts, iterations, around), parts)
    wanted = [None] * around + [part.node for part in parts for _ in range(part.total)] + [None] * around
    assert [activity.node for activity in found.activities] == wanted * iterations
    assert not found.notes


@given(parts_of, st.randoms())
def test_the_order_in_the_file_does_not_matter(parts: list[Part], random: object) -> None:
    timeline = replayed(parts, 2)
    mixed = list(timeline.activities)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    found = with_nodes(replace(timeline, activities=tuple(mixed)), parts)
    expected = {(a.start_us, a.node) for a in with_nodes(timeline, parts).activities}
    assert {(a.start_us, a.node) for a in found.activities} == expected


@given(parts_of)
def test_a_replay_that_does_not_match_names_no_node_and_says_so(parts: list[Part]) -> None:
    timeline = replayed(parts, 2)
    found = with_nodes(replace(timeline, activities=timeline.activities[1:]), parts)
    first = [activity.node for activity in found.activities if activity.iteration == 0]
    assert first == [None] * len(first)
    second = [activity.node for activity in found.activities if activity.iteration == 1]
    assert second == [part.node for part in parts for _ in range(part.total)]
    wanted = sum(part.total for part in parts)
    if wanted > 1:
        assert found.notes == (
            f"1 inferences have other GPU work than the capture (inference 0: {wanted - 1} activities, captured: "
            f"{wanted}); their kernels name no node",
        )


def test_kinds_must_match_too() -> None:
    timeline = replayed([Part("a", {"kernel": 1}), Part("b", {"memset": 1})], 1)
    found = with_nodes(timeline, [Part("a", {"memset": 1}), Part("b", {"kernel": 1})])
    assert [activity.node for activity in found.activities] == [None, None]
    assert found.notes


# What a runtime tells of itself


def test_tensorrts_layer_times_are_laid_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Times:
        def layer_times(self, call: object) -> list[tuple[str, float]]:
            assert call == "the call"
            return times

        def description(self, call: object) -> str:
            assert call == "the call"
            return json.dumps({"Layers": ["conv", {"Name": "gemm", "Inputs": [{"Name": "x", "Dimensions": [4, 8]}]}]})

    times: list[tuple[str, float]] = []

    def infer() -> None:
        times.extend([("conv", 0.5), ("gemm", 0.25)])

    request = TraceRequest("net.engine", "tensorrt", "own", iterations=2)
    found = workload._layers(request, Times(), infer, "the call")  # type: ignore[arg-type]
    assert [(a.kind, a.node, a.start_us, a.end_us, a.iteration) for a in found.activities] == [
        ("layer", "conv", 0, 500, 0),
        ("layer", "gemm", 500, 750, 0),
        ("layer", "conv", 750, 1250, 1),
        ("layer", "gemm", 1250, 1500, 1),
    ]
    assert found.iterations == (Iteration(0, 0, 750), Iteration(1, 750, 1500))
    assert [(layer.name, [tensor.shape for tensor in layer.inputs]) for layer in found.layers] == [
        ("conv", []),
        ("gemm", [(4, 8)]),
    ]
    monkeypatch.setattr(Times, "description", lambda self, call: '{"Layers": [], "Bindings": ["x"]}')
    silent = workload._layers(request, Times(), infer, "the call")  # type: ignore[arg-type]
    assert (silent.layers, [activity.node for activity in silent.activities][:2]) == ((), ["conv", "gemm"])
    with pytest.raises(RecorderError, match="gave no layer times"):
        workload._layers(request, Times(), times.clear, "the call")  # type: ignore[arg-type]


def test_tensorrt_takes_our_profiler() -> None:
    trt = flavors.select("rtx").trt
    times: list[tuple[str, float]] = []
    profiler = tensorrt._reporter(trt, times)
    assert isinstance(profiler, trt.IProfiler)
    profiler.report_layer_time("conv", 0.5)
    assert times == [("conv", 0.5)]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(RecorderError, match=r"the package nvtx is missing .*pip install 'lenet-trt\[profile\]'"):
        ranges.nvtx()
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(RecorderError, match=r"CUPTI's binding cannot be imported .*pip install 'lenet-trt\[profile\]'"):
        Cupti()


def test_nodes_are_told_around_their_computation() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from lenet_trt.runtimes.graph.torch_program import TorchProgram

    model = onnx.load(SHIPPED)
    told: list[str] = []

    @contextmanager
    def around(node: object) -> Iterator[None]:
        told.append(f"{node.name} begins")  # type: ignore[attr-defined]
        yield
        told.append(f"{node.name} ends")  # type: ignore[attr-defined]

    TorchProgram(model, torch.device("cpu")).run([torch.zeros(2, 1, 28, 28)], {}, around)
    assert told == [f"{node.name} {what}" for node in model.graph.node for what in ("begins", "ends")]
