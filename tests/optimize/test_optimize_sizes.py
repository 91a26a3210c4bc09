"""A network with more open axes than the batch is optimized for sizes that the user gives to the others."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from lenet_trt.cli import main
from lenet_trt.onnx_model.profiles import inputs_of
from lenet_trt.onnx_model.read import load_model
from lenet_trt.optimize.bench import Bench
from lenet_trt.optimize.record import read_optimize_record
from lenet_trt.optimize.settings import Settings
from lenet_trt.optimize.space import Space, plan_of
from lenet_trt.trace.timeline import load_timeline
from sequences import sequence_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(sequence_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_sizes_of_other_axes_make_it_optimizable(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["optimize", str(model), "--runtime", "ort-cpu", "--batch", "1", "3"]
    assert main(given) == 2
    assert "x [batch, sequence, 8], mask [batch, sequence]: give open axes sizes with" in capsys.readouterr().err
    assert main([*given, "--sizes", "sequence=5"]) == 0
    folder = model.with_name("m.optimized")
    record = read_optimize_record(folder / "optimize.json")
    assert record["sizes"] == {"sequence": 5}
    assert [entry["batch"] for entry in record["chosen"]] == [1, 3]
    assert "Sizes of open axes, in the model and in what was made of it: sequence = 5." in (
        folder / "optimize.md"
    ).read_text("utf-8")
    # The trace names the file that was given, whose axes are open: it says with which sizes it ran.
    assert load_timeline(folder / "timelines" / "plain-n3.json").sizes == {"batch": 3, "sequence": 5}
    capsys.readouterr()
    trace = str(folder / "timelines" / "plain-n3.json")
    assert main(["report", trace, "--datasheet", "H200", "-o", str(folder / "r.md")]) == 0
    assert "--sizes" not in capsys.readouterr().out


def test_another_size_is_measured_again(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["optimize", str(model), "--runtime", "ort-cpu", "--plugins", "softmax", "--sizes"]
    state = model.with_name("m.optimized") / "state.json"
    assert main([*given, "sequence=5,batch=2"]) == 0
    first = json.loads(state.read_text())["key"]
    capsys.readouterr()
    assert main([*given, "batch=2,sequence=5"]) == 0
    assert "continuing:" in capsys.readouterr().err
    assert json.loads(state.read_text())["key"] == first
    assert main([*given, "sequence=6,batch=2"]) == 0
    assert "have changed since: starting again" in capsys.readouterr().err


def test_batch_and_sizes_may_not_name_one_axis(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["optimize", str(model), "--runtime", "ort-cpu", "--batch", "1", "3", "--sizes", "batch=2,sequence=5"]
    assert main(given) == 2
    assert "--batch 1 3: --sizes batch=2,sequence=5 fixes the first axis already" in capsys.readouterr().err


def test_what_is_tried_has_the_sizes(tmp_path: Path, model: Path) -> None:
    from lenet_trt.onnx_model.fixed_axes import with_sizes

    space = Space(with_sizes(load_model(model), {"sequence": 5}), "softmax,layer_norm")
    bench = Bench(space, Settings(runtime="ort-cpu", batches=(3,), sizes={"sequence": 5}), tmp_path)
    for plan in (plan_of([]), *space.candidates):
        assert inputs_of(load_model(bench.file(plan, 3)))["x"] == ("batch", 5, 8)
        assert bench.check(plan, 3).problem is None
