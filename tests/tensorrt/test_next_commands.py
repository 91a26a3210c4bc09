"""What a build says to type next works on what was built."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.export import ConvCase, conv_onnx, matmul_onnx
from lenet_trt.export.cases import MatMulCase
from lenet_trt.tensorrt.flavors import installed

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


def test_a_classifier_of_images_is_run(lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "lenet5.onnx"
    model.write_bytes(lenet5.read_bytes())
    assert next_command(model, capsys) == f"lenet-trt run {model.with_suffix('.engine')}"
