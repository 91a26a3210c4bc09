"""The suite ``zoo``, with a script in trtexec's place; what a real one builds and runs is measured on a GPU."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench_data import record, stats
from lenet_trt.bench import trtexec_engines
from lenet_trt.bench.engine_tool import NOT_RUN
from lenet_trt.bench.record import Record, Row, as_json, load_record
from lenet_trt.bench.resume import joined
from lenet_trt.bench.suite import Recording, SuiteOptions
from lenet_trt.bench.trtexec_engines import TrtexecEngines
from lenet_trt.bench.zoo import ahead, cases, right, survey
from lenet_trt.bench.zoo.ahead import _build as build
from lenet_trt.bench.zoo.networks import ZooInput, ZooNetwork
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import Gpu, gpus
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.fuse.stage import fuse
from lenet_trt.profile.trtexec import find_trtexec
from lenet_trt.tensorrt.flavors import installed
from traced import CEILINGS
from trtexec_script import write_library

_TRTEXEC = """#!PYTHON
import array, json, math, pathlib, sys
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
print("&&&& RUNNING TensorRT.trtexec [TensorRT v8600] # trtexec")
if "help" in options:
    print("--loadEngine --iterations --duration --exportProfile --exportLayerInfo --exportTimes --buildOnly --fp16 "
          "--useCudaGraph --useSpinWait --noDataTransfers --separateProfileRun --noTF32 --profilingVerbosity "
          "--staticPlugins --timingCacheFile")
    sys.exit()
with open(__file__ + ".calls", "a") as calls:
    calls.write(json.dumps(options) + "\\n")
if "saveEngine" in options:
    if pathlib.Path(__file__ + ".fails").exists():
        sys.exit("[E] the builder refuses")
    kind = b"FP16" if "fp16" in options else b"FP32"
    pathlib.Path(options["saveEngine"]).write_bytes(kind + pathlib.Path(options["onnx"]).read_bytes())
    sys.exit(139)  # as trtexec 8.6 ends, the engine saved
if "staticPlugins" in options and pathlib.Path(__file__ + ".plugins_fail").exists():
    sys.exit("[E] the plugin refuses to run")
engine = pathlib.Path(options["loadEngine"]).read_bytes()
kind, file = engine[:4].decode(), options["loadInputs"].partition(":")[2]
dims = [pathlib.Path(file).stat().st_size // (4 * 8), 8]
if "exportOutput" in options:
    x = array.array("f", pathlib.Path(file).read_bytes())
    wrong = pathlib.Path(__file__ + ".wrong").exists()
    y = []
    for begin in range(0, len(x), 8):
        powers = [math.exp(max(each, 0)) for each in x[begin : begin + 8]]
        y += [-each / sum(powers) + wrong for each in powers]
    answer = [{"name": "y", "dimensions": "x".join(map(str, dims)), "values": y}]
    sys.exit(pathlib.Path(options["exportOutput"]).write_text(json.dumps(answer)) and 0)
def tensor(name, kind="FP32"):
    return {"Name": name, "Dimensions": dims, "Format/Datatype": "Row major linear " + kind}
layers = [
    {"Name": "Reformatting CopyNode for Input Tensor 0 to dense + relu", "LayerType": "Reformat",
     "Inputs": [tensor("x")], "Outputs": [tensor("x2", kind)]},
    {"Name": "dense + relu", "LayerType": "CaskGemm", "Inputs": [tensor("x2", kind)], "Outputs": [tensor("a", kind)],
     "Metadata": "[ONNX Layer: dense]\\u001e[ONNX Layer: relu]", "TacticName": "sm80_xmma_gemm"},
    {"Name": "{ForeignNode[norm...last]}", "LayerType": "Myelin", "Inputs": [tensor("a", kind)],
     "Outputs": [tensor("y")]},
]
pathlib.Path(options["exportLayerInfo"]).write_text(json.dumps({"Layers": layers, "Bindings": ["x", "y"]}))
ms = {"Reformat": 0.005, "CaskGemm": 0.030, "Myelin": 0.010}
profile = [{"name": l["Name"], "averageMs": ms[l["LayerType"]], "medianMs": ms[l["LayerType"]]} for l in layers]
pathlib.Path(options["exportProfile"]).write_text(json.dumps([{"count": 5}, *profile]))
keys = "startEnqMs endEnqMs startH2dMs endH2dMs startComputeMs endComputeMs startD2hMs endD2hMs h2dMs d2hMs".split()
ms = 0.020 if "staticPlugins" in options else 0.040
times = [{**dict.fromkeys(keys, 0.0), "computeMs": ms, "latencyMs": ms}] * int(options["iterations"])
pathlib.Path(options["exportTimes"]).write_text(json.dumps(times))
"""
WIDTH = 8
needs_rtx = pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")
GPU = Gpu(0, "a GPU", 90, 1 << 30)
NETWORK = ZooNetwork("small", "a dense layer", lambda: pytest.fail("it is there"), {"x": ZooInput((WIDTH,))}, ("y",))


def small_model() -> onnx.ModelProto:
    """A dense layer, ReLU and softmax, with an open batch."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "dense"),
        helper.make_node("Relu", ["m"], ["a"], "relu"),
        helper.make_node("Softmax", ["a"], ["s"], "norm"),
        helper.make_node("Neg", ["s"], ["y"], "last"),
    ]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH])] for name in ("x", "y")]
    weight = numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "w")
    graph = helper.make_graph(nodes, "small", *ends, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script, the exported network, and what only a GPU could tell."""
    program = tmp_path / "trtexec"
    program.write_text(_TRTEXEC.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    write_library(tmp_path / "liblenet_trt_plugins.so", "8.6")
    (tmp_path / "zoo").mkdir()
    onnx.save(small_model(), tmp_path / "zoo" / "small.onnx")
    monkeypatch.setattr(survey, "ZOO", [NETWORK])
    monkeypatch.setattr(survey, "first_gpu", lambda: GPU)
    monkeypatch.setattr(survey, "measured_ceilings", lambda: CEILINGS)
    return program


@pytest.fixture
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of ours fits the network: compiling them is slow, and most tests are about TensorRT's own engine."""
    monkeypatch.setattr(cases, "fuse", lambda model: fuse(model, "none"))


def options(program: Path, **changes: object) -> SuiteOptions:
    names = {"models": program.with_name("zoo"), "library": program.with_name("liblenet_trt_plugins.so")}
    values: dict[str, object] = {"quick": True, "trtexec": str(program), **names}
    return SuiteOptions(**{**values, **changes})  # type: ignore[arg-type]


def calls(program: Path) -> list[dict[str, str]]:
    file = Path(f"{program}.calls")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def dies_for_the_lstm(job: ahead.SurveyJob, path: Path, builder: cases.Builder, sender: Connection) -> None:
    """Build, but for one engine end as a process does in which TensorRT crashes."""
    if job.network == "lstm" and not job.done:
        sender.send(("fp32", "TensorRT"))
        os.kill(os.getpid(), signal.SIGSEGV)
    build(job, path, builder, sender)


def engines_of(found: Record) -> list[Row]:
    """The rows of engines; the graph runtime has rows too, with times where there is a GPU."""
    return [row for row in found.timed if row.backend == "TensorRT"]


@pytest.mark.usefixtures("without_plugins")
def test_each_batch_and_precision_is_built_timed_and_accounted_for(trtexec: Path) -> None:
    found = survey.measure(options(trtexec, batches=(1, 32)))
    order = [(row.case["batch"], row.case["precision"]) for row in engines_of(found)]
    assert order == [(1, "fp32"), (1, "fp16"), (32, "fp32"), (32, "fp16")]
    for row in engines_of(found):
        assert row.stats is not None
        assert (row.backend, row.stats.median_us, row.stats.count) == ("TensorRT", 40, survey.QUICK_ITERATIONS)
        assert row.extra["layers"] == 3
        # The profiler's layers take 45 us together: 5 us are shared out over three.
        assert row.extra["profiler_us"] == pytest.approx(5 / 3, abs=1e-3)
        assert row.extra["reformats"] == {"layers": 1, "us": pytest.approx(5 - 5 / 3, abs=1e-3)}
        assert row.extra["regions"] == {"layers": 1, "us": pytest.approx(10 - 5 / 3, abs=1e-3)}
        assert row.extra["top"][0]["layer"] == "dense + relu"
        assert row.extra["top"][0]["op"] == "MatMul + Relu"
    floors = {case: row.extra["top"][0]["floor_us"] for case, row in zip(order, engines_of(found), strict=True)}
    size = 4 * (2 * 32 * WIDTH + WIDTH * WIDTH)
    assert floors[32, "fp32"] == pytest.approx(size / 1e6, abs=1e-3)
    assert floors[32, "fp16"] == pytest.approx(size / 2e6, abs=1e-3), "of the type that the layer uses"

    built = [call for call in calls(trtexec) if "saveEngine" in call and "staticPlugins" not in call]
    assert ["fp16" in call for call in built] == [False, True, False, True]
    assert all("noTF32" in call and "buildOnly" in call and "minShapes" not in call for call in built)
    ran = [call for call in calls(trtexec) if "exportTimes" in call]
    assert all({"useCudaGraph", "separateProfileRun", "noDataTransfers", "exportProfile"} <= set(call) for call in ran)


def test_an_engine_with_our_plugins_is_timed_in_turns_with_the_other(
    trtexec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "fuse", lambda model: fuse(model, ["softmax"]))  # one kernel to compile
    found = survey.measure(options(trtexec, quick=False, batches=(32,)))
    ours = [row for row in found.timed if row.backend == survey.PLUGINS]
    assert [row.case["precision"] for row in ours] == ["fp32", "fp16"]
    assert all(row.extra["plugins"] == {"softmax": 1} for row in ours)
    ran = ["staticPlugins" in call for call in calls(trtexec) if "exportTimes" in call]
    assert ran == [False, True] * survey.TURNS * len(ours)
    timings = {call["timingCacheFile"] for call in calls(trtexec) if "saveEngine" in call}
    assert len(timings) == 1, "a layer that stays has the same kernel in all engines"
    gains, *_ = survey.summaries(found)
    assert gains.lines[0] == [
        "small, batch 32, fp32",
        "40.00 us",
        "20.00 us",
        "2.00",
        "yes",
        "1 softmax",
    ]


def test_a_plugin_that_does_not_run_is_a_row_with_its_reason_and_is_tried_again(
    trtexec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "fuse", lambda model: fuse(model, ["softmax"]))
    (failing := Path(f"{trtexec}.plugins_fail")).touch()
    first = survey.measure(options(trtexec))
    assert len(engines_of(first)) == len(survey.PRECISIONS), "TensorRT's own layers are timed all the same"
    whys = [row.why for row in first.rows if row.backend == survey.PLUGINS]
    assert len(whys) == len(survey.PRECISIONS)
    assert all("the plugin refuses to run" in str(why) for why in whys)
    failing.unlink()
    again = survey.measure(options(trtexec, resume=replace(first, environment={"gpu": "a GPU"})))
    assert all(row.stats for row in again.rows if row.backend in (survey.TENSORRT, survey.PLUGINS))


@pytest.mark.usefixtures("without_plugins")
@pytest.mark.parametrize(("version", "builds"), [("8.6.0", True), ("8.6.0.12", True), ("8.6.1", False)])
def test_the_package_of_trtexecs_release_builds_and_trtexec_runs(
    version: str, builds: bool, trtexec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Package(TrtexecEngines):
        def __init__(self, flavor: object, library: Path, targets: object) -> None:
            made.append(library)
            super().__init__(find_trtexec(str(trtexec)), library, "sm_90", trtexec.parent)

    can = SimpleNamespace(builds_without_gpu=False)
    flavor = SimpleNamespace(version=version, supports=lambda gpu: True, can=can)
    monkeypatch.setattr(trtexec_engines, "select", lambda name: flavor)
    monkeypatch.setattr(trtexec_engines, "PythonEngines", Package)
    assert len(engines_of(survey.measure(options(trtexec)))) == len(survey.PRECISIONS)
    assert bool(made) == builds
    made.clear()
    survey.measure(options(trtexec, trtexec_flags=("--directIO",)))
    assert not made, "flags are for trtexec"


@pytest.mark.slow
def test_without_the_plugin_library_tensorrts_own_layers_are_measured(trtexec: Path, tmp_path: Path) -> None:
    found = survey.measure(options(trtexec, library=tmp_path / "nowhere.so"))
    assert len(engines_of(found)) == len(survey.PRECISIONS)
    (why,) = {row.why for row in found.rows if row.backend == survey.PLUGINS}
    assert "make it with lenet-trt library" in str(why)


@pytest.mark.usefixtures("without_plugins")
def test_the_tables_add_up_over_all_engines(trtexec: Path) -> None:
    found = survey.measure(options(trtexec, batches=(1, 32)))
    kinds, causes, largest = survey.summaries(found)
    assert [line[:4] for line in kinds.lines] == [
        ["matrix product", "4", "4", "113.3 us"],
        ["Myelin region without products", "4", "4", "33.33 us"],
        ["reformat", "4", "4", "13.33 us"],
    ]
    assert [line[0] for line in causes.lines] == ["shorter than a launch", "reformat"]
    assert largest.lines[0][:3] == ["small, batch 1, fp32", "dense + relu", "matrix product"]
    assert len(largest.lines) == 12
    assert all(column.text(row) for row in found.rows for column in survey.columns(found))


@pytest.mark.usefixtures("without_plugins")
def test_results_of_the_smallest_batch_are_compared(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right, "MOST_NUMBERS", 1)
    first, second = (
        row.extra
        for row in engines_of(survey.measure(options(trtexec, batches=(1, 4))))
        if row.case["precision"] == "fp32"
    )
    assert first["right"]
    assert 0 < first["engine_error"] < 1e-6
    assert "right" not in second
    Path(f"{trtexec}.wrong").touch()
    found = survey.measure(options(trtexec))
    assert not any(row.extra["right"] for row in engines_of(found))
    (error,) = (column for column in survey.columns(found) if column.heading == "error")
    assert all("wrong" in error.text(row) for row in engines_of(found))
    assert not list(survey.summaries(found)), "what computes something else is not in the sums"


@pytest.mark.usefixtures("without_plugins")
def test_short_results_of_other_batches_are_compared(trtexec: Path) -> None:
    found = survey.measure(options(trtexec, batches=(1, 4)))
    assert all(row.extra["right"] for row in engines_of(found))
    Path(f"{trtexec}.wrong").touch()
    found = survey.measure(options(trtexec, batches=(1, 4)))
    assert not any(row.extra["right"] for row in engines_of(found))


@pytest.mark.usefixtures("without_plugins")
def test_traces_are_kept_for_the_report(trtexec: Path, tmp_path: Path) -> None:
    survey.measure(options(trtexec, batches=(32,)))
    folder = tmp_path / "zoo" / survey.TRACES
    assert {path.name for path in folder.iterdir()} == {"small-n32-fp32.json", "small-n32-fp16.json"}
    page = tmp_path / "report.html"
    assert main(["report", str(folder / "small-n32-fp16.json"), "--datasheet", "H200", "-o", str(page)]) == 0
    assert "dense + relu" in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_plugins")
def test_a_build_that_fails_is_a_row_with_its_reason(trtexec: Path) -> None:
    Path(f"{trtexec}.fails").touch()
    found = survey.measure(options(trtexec))
    assert not engines_of(found)
    whys = {row.why for row in found.rows if row.backend == "TensorRT"}
    assert all("the builder refuses" in str(why) for why in whys)


@pytest.mark.usefixtures("without_plugins")
def test_a_resumed_run_measures_only_what_is_missing(trtexec: Path, tmp_path: Path) -> None:
    first = survey.measure(options(trtexec))
    old = replace(first, environment={**first.environment, "gpu": "a GPU"})
    half = replace(old, rows=tuple(row for row in old.rows if row.case["precision"] == "fp32"))
    (tmp_path / "zoo.json").write_text(as_json(half))
    before = len(calls(trtexec))
    resumed = survey.measure(options(trtexec, resume=load_record(tmp_path / "zoo.json")))
    assert [row.key for row in resumed.rows] == [row.key for row in first.rows]
    assert len(calls(trtexec)) == before + 3, "one build, one run, one check"
    assert "fp16" in calls(trtexec)[before]


@pytest.mark.usefixtures("without_plugins")
def test_kept_engines_are_not_built_again(trtexec: Path, tmp_path: Path) -> None:
    def built() -> int:
        return sum("saveEngine" in call for call in calls(trtexec))

    first = survey.measure(options(trtexec, engines=tmp_path / "kept"))
    assert built() == len(survey.PRECISIONS)
    again = survey.measure(options(trtexec, engines=tmp_path / "kept"))
    assert built() == len(survey.PRECISIONS)
    seconds = [[row.extra["build_seconds"] for row in engines_of(found)] for found in (first, again)]
    assert seconds[0] == seconds[1]
    (tmp_path / "kept" / "small-n1-fp32.made.json").write_text("{")
    survey.measure(options(trtexec, engines=tmp_path / "kept"))
    assert built() == len(survey.PRECISIONS) + 1, "an engine of which nobody knows what it was made of"
    survey.measure(options(trtexec, engines=tmp_path / "kept", trtexec_flags=("--noTF32",)))
    assert built() == 2 * len(survey.PRECISIONS) + 1, "made with other flags"


@pytest.fixture
def two_networks(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small network under the names of two in the survey: other processes know these alone."""
    for name in (both := ("lstm", "detector")):
        onnx.save(small_model(), trtexec.parent / "zoo" / f"{name}.onnx")
    monkeypatch.setattr(survey, "ZOO", [replace(NETWORK, name=name) for name in both])
    return trtexec


@pytest.mark.slow
def test_engines_are_built_side_by_side_before_any_is_timed(two_networks: Path) -> None:
    found = survey.measure(options(two_networks, jobs=2, batches=(1,)))
    timed = [row for row in found.timed if row.backend in (survey.TENSORRT, survey.PLUGINS)]
    assert [row.case["network"] for row in timed] == 3 * ["lstm"] + 3 * ["detector"], "in fp16 no plugin is taken"
    kinds = ["saveEngine" in call for call in calls(two_networks)]
    assert kinds == sorted(kinds, reverse=True), "all are built before the first one runs"
    assert kinds.count(True) == len(timed), "and none is built again"


@pytest.mark.slow
def test_a_build_that_fails_elsewhere_is_not_tried_again(two_networks: Path) -> None:
    Path(f"{two_networks}.fails").touch()
    found = survey.measure(options(two_networks, jobs=4, batches=(1,)))
    whys = [str(row.why) for row in found.rows if row.backend in (survey.TENSORRT, survey.PLUGINS)]
    assert len(whys) == len(calls(two_networks)) == 6
    assert all("the builder refuses" in why for why in whys)


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_engine_alone(
    two_networks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ahead, "_build", dies_for_the_lstm)
    builder = cases.Builder.of(options(two_networks), find_trtexec(str(two_networks)), GPU, tmp_path)
    recording = Recording("zoo", options(two_networks))
    jobs = [ahead.SurveyJob(name, 1, ("fp32", "fp16")) for name in ("lstm", "detector")]
    failed = ahead.build_ahead(jobs, tmp_path / "zoo", builder, 2, recording)
    assert list(failed) == [("lstm", 1, "fp32", "TensorRT")]
    built = {path.name for path in tmp_path.glob("*.engine")}
    others = [
        "detector-n1-fp32",
        "detector-n1-fp32-plugins",
        "detector-n1-fp16",
        "lstm-n1-fp32-plugins",
        "lstm-n1-fp16",
    ]
    assert built == {f"{name}.engine" for name in others}
    assert "ended with status" in str(failed["lstm", 1, "fp32", "TensorRT"])


def test_after_ctrl_c_no_other_build_begins(
    two_networks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[ahead.SurveyJob] = []
    told = Event()

    def built_elsewhere(job: ahead.SurveyJob, path: Path, builder: cases.Builder) -> list[object]:
        begun.append(job)
        assert len(begun) == 1 or told.wait(60)  # the second one is in work when Ctrl-C comes
        return []

    def interrupt(text: str) -> None:
        told.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(ahead, "_built_elsewhere", built_elsewhere)
    builder = cases.Builder.of(options(two_networks), find_trtexec(str(two_networks)), GPU, tmp_path)
    recording = Recording("zoo", options(two_networks))
    monkeypatch.setattr(recording, "say", interrupt)
    jobs = [ahead.SurveyJob("lstm", batch, ("fp32",)) for batch in range(1, 30)]
    with pytest.raises(KeyboardInterrupt):
        ahead.build_ahead(jobs, tmp_path / "zoo", builder, 1, recording)
    assert len(begun) <= 3


def test_a_run_without_trtexec_is_joined_with_one_that_has_it(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"network": "small", "batch": 1, "precision": "fp32"}
    alone = record(Row("graph runtime", case, stats(2.0)), suite="zoo", environment={"gpu": "a GPU"})
    first = survey.measure(options(trtexec))
    with_engines = replace(first, environment=alone.environment, commit=alone.commit)
    assert with_engines.details["trtexec"]
    both = joined([alone, with_engines])
    assert both is not None
    assert both.details["trtexec"] == with_engines.details["trtexec"]
    assert both.find("graph runtime", **case) == alone.rows[0]
    resumed = survey.measure(options(trtexec, resume=both))
    assert resumed.find("graph runtime", **case) == alone.rows[0]
    other = replace(with_engines, details={**with_engines.details, "trtexec": "trtexec 10.3.0"})
    with pytest.raises(UsageError, match="the records are of trtexec"):
        joined([alone, with_engines, other])


@pytest.mark.parametrize("change", ["gpu", "trtexec", "suite"])
def test_a_record_of_something_else_is_not_resumed(trtexec: Path, change: str) -> None:
    row = Row("TensorRT", {"network": "small", "batch": 1, "precision": "fp32"}, stats(1.0))
    old = record(row, suite="zoo", environment={"gpu": "a GPU"}, details={"trtexec": "trtexec 8.6.0"})
    changed = {
        "gpu": replace(old, environment={"gpu": "another"}),
        "trtexec": replace(old, details={"trtexec": "trtexec 10.3.0"}),
        "suite": replace(old, suite="engines"),
    }[change]
    with pytest.raises(UsageError, match=r"--resume: the record's .* measure all again"):
        survey.measure(options(trtexec, resume=changed))
    assert not calls(trtexec)


def test_without_trtexec_the_rows_say_so(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(chosen: str | None) -> None:
        raise LenetTrtError("neither trtexec nor tensorrt_rtx is on the PATH")

    monkeypatch.setattr(survey, "find_trtexec", missing)
    rows = survey.measure(options(trtexec)).rows
    assert {row.backend for row in rows} == {"TensorRT", "graph runtime"}
    assert all("is on the PATH" in str(row.why) for row in rows if row.backend == "TensorRT")


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU")
def test_without_a_gpu_the_command_refuses_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "zoo"]) == 1
    said = capsys.readouterr().err
    assert "there is none here" in said
    assert "--build-only" in said


@pytest.mark.usefixtures("without_plugins")
def test_one_precision_alone(trtexec: Path) -> None:
    found = survey.measure(options(trtexec, precisions=("fp16",), batches=(1, 32)))
    assert {row.case["precision"] for row in found.rows} == {"fp16"}
    assert [row.case["batch"] for row in engines_of(found)] == [1, 32]


@pytest.mark.parametrize(
    "option", [["--build-only"], ["--models", "x"], ["--engines", "x"], ["--precision", "fp32"], ["--jobs", "2"]]
)
def test_its_options_are_of_no_other_suite(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "zoo", *option]) == 2
    assert "are options of zoo alone" in capsys.readouterr().err


def test_no_other_suite_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sweep", "zoo", "--resume", "x"]) == 2
    assert "--resume is an option of engines and zoo" in capsys.readouterr().err


def test_all_leaves_the_survey_out() -> None:
    from lenet_trt.bench.suites import SUITES, USUAL

    assert set(SUITES) - set(USUAL) == {"zoo"}


@needs_rtx
def test_building_alone_says_what_builds_and_gives_floors(trtexec: Path) -> None:
    found = survey.measure(options(trtexec, build_only=True, batches=(1, 32)))
    assert [row.case["precision"] for row in found.rows] == ["fp32", "fp16"]
    for row in found.rows:
        assert row.why == NOT_RUN
        assert row.extra["network_layers"] >= 4
        assert row.extra["engine_bytes"] > 0
        one, many = (row.extra["floors"]["H200"][batch] for batch in ("1", "32"))
        assert 0 < one["as_one_us"] <= one["needed_us"] <= many["needed_us"]
    builds, *floors = survey.summaries(found)
    (line,) = builds.lines
    assert (line[0], line[2]) == ("small", "4")
    assert all("layers, " in cell for cell in line[-2:])
    assert [summary.title for summary in floors] == [f"Floors by the data sheet of {gpu}" for gpu in survey.DATASHEETS]
    assert not calls(trtexec)


@needs_rtx
def test_an_operator_that_tensorrt_does_not_take_is_the_reason(trtexec: Path, tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[3].op_type = "Bernoulli"
    onnx.save(model, tmp_path / "zoo" / "small.onnx")
    found = survey.measure(options(trtexec, build_only=True))
    assert all("Bernoulli" in str(row.why) for row in found.rows)
