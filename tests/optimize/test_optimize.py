"""The verb ``optimize`` on a machine without a GPU, what it leaves on disk, and the gate that plans must pass."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.build.evaluate import random_inputs
from lenet_trt.build.request import BuildRequest
from lenet_trt.cli import main, parser_for
from lenet_trt.cuda.gpus import Gpu, first_gpu
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export import mnist
from lenet_trt.export.cases import MatMulCase, matmul_onnx
from lenet_trt.onnx_model.read import load_model
from lenet_trt.optimize import gate, written
from lenet_trt.optimize.__main__ import settings_from
from lenet_trt.optimize.bench import PLAIN, Bench
from lenet_trt.optimize.journal import Journal, Remembered
from lenet_trt.optimize.markdown import optimize_headline, optimize_report
from lenet_trt.optimize.records import Accuracy
from lenet_trt.optimize.result import optimize
from lenet_trt.optimize.settings import Settings
from lenet_trt.optimize.space import Fitted, PluginPlan, Space
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt.sidecar import FileRecord, read_sidecar
from lenet_trt.trace import timeline
from lenet_trt.trace.ledger import ledger_of
from optimize_clock import SLOW, Clock, lenet5_space

HAS_TORCH = find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="float64 is computed by torch: pip install torch")
REFERENCE = "float64" if HAS_TORCH else "ONNX Runtime on the CPU"
ABOUT = {
    "model": "lenet5.onnx",
    "command": "lenet-trt optimize lenet5.onnx",
    "where": "a clock",
    "how": "counted",
    "environment": {"gpu": None, "cpu": "none", "lenet_trt": "0"},
    "made": {"time": "2026-01-01T00:00:00+00:00", "commit": None},
    "refusals": [],
}


def of_one_node(op: str, axes: list[int | str]) -> onnx.ModelProto:
    """y = op(x), float32 [*axes]."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name=op.lower())], "graph", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small MatMul optimized by ONNX Runtime on the CPU, where the plugin node is what it replaced: never faster."""
    folder = tmp_path_factory.mktemp("optimize")
    matmul_onnx(folder / "matmul.onnx", MatMulCase(dims=(64, 20, 4, 1, 16), dynamic=True))
    assert main(["optimize", str(folder / "matmul.onnx"), "--runtime", "ort-cpu", "--batch", "3", "1"]) == 0
    return folder


def test_the_real_loop_keeps_nothing_that_is_not_faster(run: Path) -> None:
    record = json.loads((run / "matmul.optimized" / "optimize.json").read_text())
    assert [entry["batch"] for entry in record["chosen"]] == [1, 3]
    assert all(entry["plan"] == [] for entry in record["chosen"])
    assert record["models"] == []
    assert [path.name for path in (run / "matmul.optimized").iterdir() if path.suffix == ".onnx"] == []
    trials = [trial for outcome in record["batches"] for trial in outcome["trials"]]
    assert {piece["kernel"] for trial in trials for piece in trial["candidate"]} == {"batched_matvec"}
    for trial in trials:
        assert trial["kept"] is False
        assert trial["accuracy"]["reference"] == REFERENCE
        assert trial["accuracy"]["error"] < 1e-6
        assert trial["old"]["count"] == trial["new"]["count"] > 50
    ledgers = [seen["ledger"] for outcome in record["batches"] for seen in outcome["observed"]]
    assert all(sum(ledger["total"].values()) == ledger["end_to_end_us"] > 0 for ledger in ledgers)


def test_without_time_nothing_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims=(4, 20, 2, 1, 8)))
    given = ["optimize", str(tmp_path / "m.onnx"), "--runtime", "ort-cpu", "--minutes"]
    assert main([*given, "0"]) == 0
    assert "the model stays as it is" in capsys.readouterr().out
    text = (tmp_path / "m.optimized" / "optimize.md").read_text()
    assert re.search(r"Not tried, since the time of --minutes was over: batched\\_matvec for matmul", text)
    assert main([*given, "60"]) == 0
    record = json.loads((tmp_path / "m.optimized" / "optimize.json").read_text())
    assert record["batches"][0]["trials"], "the run goes on, with more time"


def test_the_report_says_what_was_tried_and_why_it_was_not_kept(run: Path) -> None:
    text = (run / "matmul.optimized" / "optimize.md").read_text()
    assert "the model stays as it is" in text
    assert re.search(r"\| batched\\_matvec for matmul .* not kept: ", text)
    assert "on the CPU" in text


def test_a_second_run_measures_nothing_again_and_restart_does(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    state = run / "matmul.optimized" / "state.json"
    before = state.read_bytes()
    command = ["optimize", str(run / "matmul.onnx"), "--runtime", "ort-cpu", "--batch", "1,3", "--json"]
    assert main(command) == 0
    seen = capfd.readouterr()
    assert "steps were done before" in seen.err
    assert state.read_bytes() == before
    assert json.loads(seen.out)["written"] == [str(state.with_name(name)) for name in ("optimize.json", "optimize.md")]
    assert main([*command[:5], "1", "--restart"]) == 0
    assert "steps were done before" not in capfd.readouterr().err
    assert len(json.loads(state.read_text())["steps"]) < len(json.loads(before)["steps"])


def test_an_interrupted_command_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims=(8, 4, 1, 1, 4)))
    command = ["optimize", str(tmp_path / "m.onnx"), "--runtime", "ort-cpu"]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lenet_trt.optimize.bench.profile_model", interrupted)
        assert main(command) == 130
    assert "the same command continues from" in capsys.readouterr().err
    assert main(command) == 0
    assert "continuing: 1 steps were done before" in capsys.readouterr().err


def test_a_model_that_no_kernel_fits_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(of_one_node("Sin", [3]), tmp_path / "sin.onnx")
    assert main(["optimize", str(tmp_path / "sin.onnx"), "--runtime", "ort-cpu", "-o", str(tmp_path / "out")]) == 0
    assert "the model stays as it is" in capsys.readouterr().out
    assert (tmp_path / "out" / "optimize.md").is_file()


def test_the_traces_stay_for_the_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / "matmul.optimized"
    record = json.loads((folder / "optimize.json").read_text())
    (seen,) = record["batches"][-1]["observed"]
    trace = timeline.load_timeline(folder / seen["timeline"])
    assert ledger_of(trace).end_to_end_us == pytest.approx(seen["end_to_end_us"])
    assert not (folder / "tried").exists()


def test_engines_of_plans_are_built_with_their_plugins(tmp_path: Path) -> None:
    """The same loop builds engines where TensorRT is: here for a GPU that is not here, so that they cannot be timed."""
    plan = next(p for p in lenet5_space().candidates if [piece.kernel for piece in p.pieces] == ["lenet5"])
    bench = Bench(lenet5_space(), Settings(runtime="tensorrt", batches=(4,), flavor="rtx", sms=("8.6",)), tmp_path)
    engine = bench.file(plan, 4)
    sidecar = read_sidecar(engine.with_suffix(".json"))
    assert [entry["kernel"] for entry in sidecar.plugins] == ["lenet5"]
    assert sidecar.tensors["images"]["shape"] == [4, 1, 28, 28]
    assert sidecar.mismatch(engine) is None
    assert bench.file(plan, 4) == engine


@pytest.mark.parametrize("times", [True, False])
def test_engines_share_what_tensorrt_timed_where_it_times(
    times: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else TensorRT would choose anew for each candidate, and what is noise of its choice would count as a gain."""
    asked: list[BuildRequest] = []
    flavor = SimpleNamespace(can=SimpleNamespace(timing_cache=times))
    monkeypatch.setattr("lenet_trt.tensorrt.flavors.select", lambda name: flavor)
    monkeypatch.setattr(
        "lenet_trt.build.stage.build", lambda request: asked.append(request) or SimpleNamespace(engine=request.output)
    )
    space, settings = lenet5_space(), Settings(runtime="tensorrt", batches=(1, 4))
    said: list[str] = []
    bench = Bench(space, settings, tmp_path, said.append)
    for plan in 2 * (PLAIN, next(iter(space.candidates))):
        for batch in settings.batches:
            bench.file(plan, batch)
    assert len({request.output for request in asked}) == len(asked) == 4
    assert said == [f"building {request.output.name}" for request in asked]
    assert {request.options.timing_cache for request in asked} == {
        tmp_path / "tried" / "timings.cache" if times else None
    }


@pytest.mark.parametrize(("sm", "runtime"), [(86, "tensorrt"), (120, "tensorrt"), (90, "auto")])
def test_engines_are_taken_where_tensorrt_takes_the_gpu(
    sm: int, runtime: str, monkeypatch: pytest.MonkeyPatch, lenet5: Path
) -> None:
    """TensorRT-RTX, which is installed with the toolkit, takes no data-centre GPU."""
    monkeypatch.setattr("lenet_trt.cuda.gpus.first_gpu", lambda: Gpu(0, "a GPU", sm, 1 << 30))
    arguments = parser_for("optimize").parse_args([str(lenet5), "--flavor", "rtx"])
    assert settings_from(arguments, load_model(lenet5)).runtime == runtime
    asked = parser_for("optimize").parse_args([str(lenet5), "--flavor", "rtx", "--runtime", "graph"])
    assert settings_from(asked, load_model(lenet5)).runtime == "graph"


@pytest.mark.parametrize("sizes", [["32", "1"], ["1,32"], ["1,", "32"], ["32,1", "1"]])
def test_batch_sizes_with_spaces_or_commas(lenet5: Path, sizes: list[str]) -> None:
    asked = parser_for("optimize").parse_args([str(lenet5), "--runtime", "graph", "--batch", *sizes])
    assert settings_from(asked, load_model(lenet5)).batches == (1, 32)


def test_engines_are_not_timed_without_a_gpu(lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if first_gpu() is not None:
        pytest.skip("there is a GPU")
    assert main(["optimize", str(lenet5), "--runtime", "tensorrt"]) == 1
    assert "engines are timed on a GPU, and this machine has none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--batch", "4", "8"], "--batch 4 8: the model's shapes are fixed"),
        (["--plugins", "none"], "nothing to try"),
        (["--plugins", "nonsense"], "no kernel 'nonsense'"),
        (["--labels", "x"], "needs --images"),
    ],
)
def test_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims=(4, 4, 1, 1, 4)))
    assert main(["optimize", str(tmp_path / "m.onnx"), "--runtime", "ort-cpu", *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "m.optimized").exists()


def test_what_cannot_be_optimized_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], lenet5: Path) -> None:
    (tmp_path / "no.engine").write_bytes(b"ftrt")
    assert main(["optimize", str(tmp_path / "no.engine")]) == 2
    assert main(["optimize", str(tmp_path / "no.onnx")]) == 1
    for sizes in (["0"], ["1", "x"], [","], ["-1"]):
        assert main(["optimize", str(lenet5), "--batch", *sizes]) == 2
    (tmp_path / "file").write_text("")
    assert main(["optimize", str(lenet5), "-o", str(tmp_path / "file")]) == 2
    assert "is a file: name a folder" in capsys.readouterr().err


def test_axes_that_optimize_cannot_size_are_refused_without_advice_that_it_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(of_one_node("Relu", ["n", "width"]), path)
    arguments = parser_for("optimize").parse_args([str(path), "--runtime", "ort-cpu"])
    with pytest.raises(UsageError, match=r"--sizes NAME=N$") as error:
        settings_from(arguments, load_model(path))
    assert "--shapes" not in str(error.value)


def optimized(costs: dict[str, float], batches: tuple[int, ...], **more: Any) -> Any:
    return optimize(batches, lenet5_space(), Clock(lenet5_space(), {**SLOW, **costs}, **more))


def test_the_fused_model_is_left_with_a_sidecar_that_vouches_for_it(tmp_path: Path, lenet5: Path) -> None:
    paths, record = written.write_optimized(tmp_path, "lenet5", lenet5_space(), optimized({"lenet5": 6}, (1, 8)), ABOUT)
    assert [path.name for path in paths] == [
        "lenet5.fused.onnx",
        "lenet5.fused.onnx.json",
        "optimize.json",
        "optimize.md",
    ]
    fused = load_model(paths[0])
    assert [node.op_type for node in fused.graph.node] == ["lenet5"]
    sidecar = json.loads(paths[1].read_text())
    assert FileRecord(**sidecar["onnx"]) == FileRecord.of(paths[0].name, paths[0].read_bytes())
    assert sidecar["batches"] == [1, 8]
    assert sidecar["plugins"][0]["kernel"] == "lenet5"
    assert sidecar["times"][0]["times_faster"] > 10
    inputs = random_inputs(load_model(lenet5), {"images": (2, 1, 28, 28)})
    wanted, found = (runner(model)(inputs)[0] for model in (load_model(lenet5), fused))
    assert np.allclose(found, wanted, atol=1e-5), "the file still runs in any ONNX runtime"
    assert "times faster, with lenet5 for" in optimize_headline(record)[0]


def test_two_plans_are_two_files_named_by_their_batch_sizes(tmp_path: Path) -> None:
    result = optimized({"lenet5": 500}, (1, 8, 100))
    paths, record = written.write_optimized(tmp_path, "lenet5", lenet5_space(), result, ABOUT)
    assert [path.name for path in paths if path.suffix == ".onnx"] == ["lenet5.fused-n8-n100.onnx"]
    assert any("take the same time at about" in line for line in optimize_headline(record))
    assert record["models"][0]["batches"] == [8, 100]


def test_the_report_escapes_what_comes_from_a_model(tmp_path: Path) -> None:
    _, record = written.write_optimized(tmp_path, "lenet5", lenet5_space(), optimized({"lenet5": 6}, (1,)), ABOUT)
    nasty = json.loads(json.dumps(record).replace("conv1", "<script>alert(1)</script> | `x`\\n# head"))
    text = optimize_report(nasty)
    assert "<script>" not in text
    assert not re.search(r"^# head", text, re.MULTILINE)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    rows = [len(re.findall(r"(?<!\\)\|", line)) for line in tables]
    heads = [at for at, line in enumerate(tables) if set(line) <= set("|- ")]
    for begin, end in zip(heads, [*heads[1:], len(tables) + 1], strict=True):
        assert len(set(rows[begin - 1 : end - 1])) == 1, "no row has cells of its own making"


@needs_torch
def test_float64_is_the_reference_and_wider_than_the_model(lenet5: Path) -> None:
    model = load_model(lenet5)
    (images,) = random_inputs(model, {"images": (3, 1, 28, 28)}).values()
    (exact,) = gate.float64_outputs(model, [images])
    assert exact.dtype == np.float64
    (single,) = runner(model)({"images": images})
    assert 0 < gate.worst_error([single], [exact]) < 1e-6
    with pytest.raises(LenetTrtError, match=r"output 0 cannot be compared: its shape is \[1, 10\], and .* \[3, 10\]"):
        gate.worst_error([single[:1]], [exact])
    with pytest.raises(LenetTrtError, match="differs from the reference in NaN or infinity"):
        gate.worst_error([single * np.inf], [exact])


@needs_torch
def test_constants_and_casts_are_widened_too() -> None:
    value = helper.make_tensor_value_info
    tenth = numpy_helper.from_array(np.array([0.1], np.float16))
    nodes = [
        helper.make_node("Constant", [], ["half"], value=tenth),
        helper.make_node("Constant", [], ["single"], value_float=0.1),
        helper.make_node("Cast", ["half"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["cast", "single"], ["sum"]),
        helper.make_node("Add", ["sum", "x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(gate.in_float64(model), full_check=True)
    (found,) = gate.float64_outputs(model, [np.array([1.0], np.float32)])
    assert found[0] == float(np.float16(0.1)) + float(np.float32(0.1)) + 1


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[str, str]:
    """Some test images as files of the user's."""
    images, labels = mnist.test_set()
    np.save(tmp_path / "images.npy", images[:60])
    (tmp_path / "labels.txt").write_text("\n".join(map(str, labels[:60])))
    return str(tmp_path / "images.npy"), str(tmp_path / "labels.txt")


def settings_for(labelled: tuple[str, str]) -> Settings:
    return Settings(runtime="ort-cpu", batches=(16,), images=(labelled[0],), labels=labelled[1])


def test_a_plan_is_checked_on_labelled_data(tmp_path: Path, labelled: tuple[str, str]) -> None:
    plan = lenet5_space().candidates[0]
    found = Bench(lenet5_space(), settings_for(labelled), tmp_path).check(plan, 16)
    assert found.problem is None
    assert found.reference == REFERENCE
    assert (found.labelled, found.correct) == (60, found.plain_correct)
    assert found.correct is not None
    assert found.correct >= 57


def test_onnx_runtime_is_the_reference_where_float64_cannot_be_had(tmp_path: Path) -> None:
    said: list[str] = []
    model = of_one_node("Celu", [4, 8])
    bench = Bench(Space(model), Settings(runtime="ort-cpu", batches=()), tmp_path, said.append)
    found = bench.check(PLAIN, None)
    assert (found.reference, found.error, found.plain_error, found.problem) == ("ONNX Runtime on the CPU", 0, 0, None)
    assert len(said) == 1
    assert "no reference by float64 (" in said[0]


class Spoiled(Space):
    """Puts in kernels, and with them another bias of the last layer."""

    def __init__(self, bias: np.ndarray) -> None:
        super().__init__(lenet5_space().model)
        self.bias = bias

    @property
    def pooled(self) -> PluginPlan:
        return next(p for p in self.candidates if [piece.kernel for piece in p.pieces] == ["maxpool2"])

    def fitted(self, plan: PluginPlan) -> Fitted:
        whole = super().fitted(plan)
        if plan.pieces:
            bias = next(t for t in whole.model.graph.initializer if list(t.dims) == [10])
            bias.CopyFrom(numpy_helper.from_array(self.bias, bias.name))
        return whole


def test_outputs_that_cannot_be_compared_are_a_problem_and_not_an_error(tmp_path: Path) -> None:
    space = Spoiled(np.full(10, np.inf, np.float32))
    settings = Settings(runtime="ort-cpu", batches=(4,))
    bench = Remembered(Bench(space, settings, tmp_path), Journal(tmp_path / "j", {}))
    found = bench.check(space.pooled, 4)
    assert found.error is None
    assert (
        found.problem == "output 0 cannot be compared: it differs from the reference in NaN or infinity, or from zeros"
    )
    assert gate.problem(found, 0.2) == found.problem
    assert found.text.startswith(f"not comparable with {found.reference} (the model as it is: ")
    assert bench.check(PLAIN, 4).problem is None


def test_a_model_that_computes_something_else_does_not_pass(tmp_path: Path, labelled: tuple[str, str]) -> None:
    space = Spoiled(100 * np.arange(10, dtype=np.float32))
    plan = space.pooled
    found = Bench(space, settings_for(labelled), tmp_path).check(plan, 16)
    assert "not accurate enough" in str(found.problem)
    assert found.error > 0.1
    lenient = Settings(**{**vars(settings_for(labelled)), "tolerance": 1e3})
    again = Bench(space, lenient, tmp_path).check(plan, 16)
    assert "points of accuracy lost" in str(again.problem)


def test_the_gate() -> None:
    good = Accuracy("float64", 1e-6, 1e-7, 1e-5, 99, 100, 10_000)
    assert gate.problem(good, max_drop=0.2) is None
    assert "not accurate enough" in str(gate.problem(Accuracy("float64", 1e-3, 1e-7, 1e-5), 0.2))
    assert gate.problem(Accuracy("float64", 1e-3, 2e-3, 1e-5), 0.2) is None, "the model as it is was worse"
    assert gate.problem(Accuracy("float64", 1e-3, 6e-4, 1e-5), 0.2) is None, "the model as it is was as far"
    assert "allowed 8.0e-04" in str(gate.problem(Accuracy("float64", 1e-3, 4e-4, 1e-5), 0.2))
    assert "not accurate enough" in str(gate.problem(Accuracy("float64", float("nan"), 1e-7, 1e-5), 0.2))
    lost = Accuracy("float64", 1e-6, 1e-7, 1e-5, 50, 100, 10_000)
    assert "0.50 points of accuracy lost" in str(gate.problem(lost, 0.2))
    assert gate.tolerance_of({"fp32"}, None) == 1e-5
    assert gate.tolerance_of({"fp32", "fp16"}, None) == 4e-3
    assert gate.tolerance_of({"fp32"}, 0.5) == 0.5


@needs_torch
def test_a_reference_that_cannot_be_computed_says_why() -> None:
    model = of_one_node("Celu", [1])
    with pytest.raises(LenetTrtError, match="Celu"):
        gate.float64_outputs(model, [np.zeros(1, np.float32)])
