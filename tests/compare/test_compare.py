"""Engines against each other: a script in trtexec's place runs ONNX files as engines, and says how long they take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.cli import main
from lenet_trt.compare.stage import ComparisonRequest, compare_engines
from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.inputs import Sizes
from trtexec_script import write_library, write_trtexec

W = np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32)


def network(w: np.ndarray = W, output: str = "y", batch: int | str = "n") -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])
    y = helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, 4])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], [output])], "net", [x], [y], [numpy_helper.from_array(w, "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def engine(folder: Path, name: str, content: bytes, us: float | None = None) -> Path:
    path = folder / f"{name}.engine"
    path.write_bytes(content)
    if us is not None:
        path.with_name(f"{path.name}.us").write_text(str(us))
    return path


def calls(program: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in program.with_name("trtexec.calls").read_text().splitlines()]


def request(folder: Path, *engines: Path, model: Path | None = None, sizes: Sizes | None = None) -> ComparisonRequest:
    program = str(write_trtexec(folder))
    return ComparisonRequest(engines, model, sizes or Sizes(), turns=2, iterations=40, trust=True, trtexec=program)


def test_engines_take_turns_and_the_first_is_the_measure(tmp_path: Path) -> None:
    content = network()
    times = {"plain": 20.0, "fast": 16.0, "slow": 25.0, "again": 20.0}
    engines = [engine(tmp_path, name, content, us) for name, us in times.items()]
    found = compare_engines(request(tmp_path, *engines, sizes=Sizes(shapes={"x": (3, 8)})))
    assert [each.path for each in found] == engines
    assert [each.stats.median_us for each in found] == pytest.approx(list(times.values()))
    assert [each.verdict for each in found] == ["", "faster", "slower", "same"]
    assert [each.times_faster for each in found] == pytest.approx([1.0, 1.25, 0.8, 1.0])
    assert [each.error for each in found] == [None] * 4
    assert all(each.stats.count == 80 for each in found)
    runs = calls(tmp_path / "trtexec")
    assert [run["loadEngine"] for run in runs] == [str(path) for path in engines] * 2
    assert {run["shapes"] for run in runs} == {"x:3x8"}
    assert all("useCudaGraph" in run and "noDataTransfers" in run for run in runs)


def test_results_are_compared_with_the_model(tmp_path: Path) -> None:
    (model := tmp_path / "net.onnx").write_bytes(network())
    right, wrong = engine(tmp_path, "right", network()), engine(tmp_path, "wrong", network(1.5 * W))
    found = compare_engines(request(tmp_path, right, wrong, model=model, sizes=Sizes(batch=5)))
    assert [each.error for each in found] == [pytest.approx(0, abs=1e-6), pytest.approx(0.5)]
    assert {run["shapes"] for run in calls(tmp_path / "trtexec")} == {"x:5x8"}


def test_an_engine_of_another_network_is_refused(tmp_path: Path) -> None:
    (model := tmp_path / "net.onnx").write_bytes(network())
    engines = engine(tmp_path, "one", network()), engine(tmp_path, "other", network(output="z"))
    with pytest.raises(LenetTrtError, match=r"other\.engine has the outputs z, and the model y: give the ONNX file"):
        compare_engines(request(tmp_path, *engines, model=model))


def test_the_command_prints_a_row_an_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model := tmp_path / "net.onnx").write_bytes(network(batch=2))
    write_library(library := tmp_path / "plugins.so", "8.6")
    content = network(batch=2)
    plain, plugins = engine(tmp_path, "plain", content, 20), engine(tmp_path, "plugins", content, 10)
    words = ["compare", str(plain), str(plugins), "--trust", "--library", str(library), "--model", str(model)]
    words += ["--trtexec-path", str(write_trtexec(tmp_path)), "--turns", "1"]
    assert main(words) == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads.split() == ["engine", "median", "95%", "interval", "times", "as", "fast", "verdict", "error"]
    assert rows[0].split()[:3] == [str(plain), "20.00", "us"]
    assert rows[1].split()[1:8] == ["10.00", "us", "10.00", "to", "10.00", "2.000", "faster"]
    assert {run["staticPlugins"] for run in calls(tmp_path / "trtexec")} == {str(library)}
    assert not any("shapes" in run for run in calls(tmp_path / "trtexec"))  # the model's are fixed
    assert main([*words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["verdict"], second["verdict"], second["times_faster"]) == (None, "faster", 2.0)
    assert second["engine"] == str(plugins)
    assert second["median_us"] == 10
    assert second["error"] < 1e-6


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (["a.engine"], "nothing to compare a.engine with: give two engines or more", 2),
        (["a.engine", "a.engine", "--batch", "3"], "without it give --shapes NAME:32x1x28x28", 2),
        (["a.engine", "a.engine", "--shapes", "x"], "wanted NAME:1x3x28x28", 2),
        (["a.engine", "a.engine", "--trust", "--library", "no.so"], "the plugin library no.so is not there", 1),
        (["a.engine", "a.engine"], "it is run only with --trust", 1),
        (["a.engine", "no.engine", "--trust"], "no.engine does not exist", 1),
        (["a.engine", "a.engine", "--trust", "--shapes", "z:1x8"], "trtexec 8.6.0 failed", 1),
    ],
)
def test_what_cannot_be_compared_is_said(
    words: list[str],
    said: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    engine(tmp_path, "a", network())
    program = write_trtexec(tmp_path)
    if "--shapes" in words and status == 1:
        program.write_text(program.read_text().replace("us = 5.0", 'sys.exit("[E] there is no input z")'))
    assert main(["compare", *words, "--trtexec-path", str(program)]) == status
    assert said in capsys.readouterr().err
