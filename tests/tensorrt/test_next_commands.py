"""What a build says to type next works on what was built."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from lenet_trt.cli import main
from lenet_trt.export import ConvCase, conv_onnx, matmul_onnx
from lenet_trt.export.cases import MatMulCase
from lenet_trt.tensorrt.flavors import installed
from lenet_trt.tensorrt.summary import next_commands
from lenet_trt.tensorrt.vouch import vouched

pytestmark = pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")


def next_command(model: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["build", str(model), "-o", str(model.with_suffix(".engine"))]) == 0
    said = capsys.readouterr().out
    assert "8.0 and later" not in said
    (line,) = (line for line in said.splitlines() if line.startswith("next"))
    return line.removeprefix("next").strip()


@pytest.mark.parametrize("name", ["conv", "matmul"])
def test_a_network_that_run_refuses_is_loaded_from_python(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / f"{name}.onnx"
    if name == "conv":
        conv_onnx(model, ConvCase(batch=2, filters=2))
    else:
        matmul_onnx(model, MatMulCase(dims=(2, 3, 1, 4, 5)))
    line = next_command(model, capsys)
    assert not line.startswith("lenet-trt run")
    words = [sys.executable, *shlex.split(line)[1:]]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "Port(" in answer.stdout


def test_a_name_with_spaces_is_one_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'
    )
    model.graph.input[0].name = model.graph.node[0].input[0] = "serving: x"
    path, engine = tmp_path / "it's.onnx", tmp_path / "it's.engine"
    onnx.save(model, path)
    line = next_command(path, capsys)
    assert str(engine) in shlex.split(line)[2]
    assert main(["inspect", str(engine)]) == 0
    answer = subprocess.run([sys.executable, *shlex.split(line)[1:]], capture_output=True, text=True, check=False)
    assert "serving: x" in answer.stdout, answer.stderr
    assert "--shapes=serving: x:8x4" in shlex.split(next_commands(engine, vouched(engine))[1], comments=True)


def test_a_simple_name_is_not_quoted_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matmul_onnx(tmp_path / "a.onnx", MatMulCase(dims=(2, 3, 1, 4, 5)))
    path = tmp_path / "a.engine"
    wanted = f"""python -c 'from lenet_trt.run import load; print(load("{path}").inputs)'"""
    assert next_command(tmp_path / "a.onnx", capsys) == wanted


def test_a_classifier_of_images_is_run(lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "lenet5.onnx"
    model.write_bytes(lenet5.read_bytes())
    assert next_command(model, capsys) == f"lenet-trt run {model.with_suffix('.engine')}"
