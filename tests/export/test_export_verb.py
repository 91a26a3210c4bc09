"""The verb `export`: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from lenet_trt.cli import main
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.files import sha256_file


@pytest.mark.parametrize(
    ("arguments", "stem"),
    [
        (["lenet5", "--shipped"], "lenet5"),
        (["matmul"], "matmul"),
        (["matmul", "--dims", "2,3,4,5,6", "--dynamic"], "matmul"),
        (["conv"], "conv"),
        (["conv", "--batch", "3", "--filters", "4", "--kernel", "3", "--activation", "tanh", "--pool"], "conv"),
        (["conv", "--dynamic", "--activation", "relu", "--seed", "7"], "conv"),
    ],
)
def test_writes_where_it_says(
    arguments: list[str],
    stem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", *arguments]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{stem}.onnx"
    assert main(["export", *arguments, "-o", "out/again.onnx", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == ["out/again.onnx"]
    assert told["onnx_sha256"] == sha256_file(Path("out/again.onnx")) == sha256_file(Path(f"{stem}.onnx"))
    onnx.checker.check_model(f"{stem}.onnx", full_check=True)


def test_shipped_lenet5_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "lenet5", "--shipped", "-o", str(tmp_path / "x.onnx")]) == 0
    assert capsys.readouterr().out.startswith("lenet5: shipped (")
    assert (tmp_path / "x.onnx").read_bytes() == SHIPPED.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["lenet5", "-o", "."], 2, "-o is ., a folder"),
        (["lenet5", "--weights", "absent.safetensors"], 1, "absent.safetensors cannot be read"),
        (["conv", "-o", "file/below/it.onnx"], 1, "cannot write file/below/it.onnx"),
    ],
)
def test_refusals(
    arguments: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("not a folder")
    assert main(["export", *arguments]) == status
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("arguments", [[], ["resnet"], ["matmul", "--dims", "1,2"], ["lenet5", "--fresh", "--shipped"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["export", *arguments])
    assert stop.value.code == 2
    assert "usage: lenet-trt export" in capsys.readouterr().err
