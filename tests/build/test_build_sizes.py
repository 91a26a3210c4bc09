"""Engines of networks with several open axes: some of them get sizes for good, the batch may stay open."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.cli import main
from lenet_trt.errors import UsageError
from lenet_trt.onnx_model.profiles import inputs_of
from lenet_trt.onnx_model.read import load_model
from lenet_trt.tensorrt.sidecar import model_path, read_sidecar, sidecar_path
from sequences import sequence_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(sequence_model(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_an_engine_has_the_sizes_and_the_batch_stays_open(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = model.with_name("m.engine")
    given = ["build", str(model), "-o", str(engine), "--batch", "1:2:4"]
    assert main(given) == 2
    assert "give open axes sizes with --sizes NAME=N" in capsys.readouterr().err
    assert main([*given, "--plugins", "softmax,layer_norm", "--sizes", "sequence=5"]) == 0
    said = capsys.readouterr().out
    assert "softmax (fp32) replaces Softmax shares" in said
    sidecar = read_sidecar(sidecar_path(engine))
    assert sidecar.inputs["sizes"] == {"sequence": 5}
    assert sidecar.tensors["x"]["profile"] == {"min": [1, 5, 8], "opt": [2, 5, 8], "max": [4, 5, 8]}
    assert inputs_of(load_model(model_path(engine)))["mask"] == ("batch", 5)


def test_other_sizes_are_another_engine(model: Path) -> None:
    def made(**sizes: int) -> bool:
        return build(BuildRequest(onnx=model, output=model.with_name("m.engine"), sizes=sizes)).reused

    assert not made(batch=2, sequence=5)
    assert made(sequence=5, batch=2)
    assert not made(batch=2, sequence=6)


def test_the_shipped_model_takes_sizes_in_every_precision(tmp_path: Path) -> None:
    for precision in ("fp32", "int8"):
        request = BuildRequest(precision=precision, output=tmp_path / f"{precision}.engine", sizes={"n": 8})
        assert build(request).sidecar.tensors["images"]["shape"] == [8, 1, 28, 28]


def test_one_batch_is_a_size(tmp_path: Path) -> None:
    """More kernels fit where the batch is known, and an engine for one batch needs no range."""
    for precision in ("fp32", "int8"):
        engine = tmp_path / f"{precision}.engine"
        sidecar = build(BuildRequest(precision=precision, output=engine, batch="8")).sidecar
        assert sidecar.tensors["images"]["shape"] == [8, 1, 28, 28]
        assert inputs_of(load_model(model_path(engine)))["images"] == (8, 1, 28, 28)
    sidecar = build(BuildRequest(output=tmp_path / "range.engine", batch="1:8:9")).sidecar
    assert sidecar.tensors["images"]["profile"]["max"] == [9, 1, 28, 28]


def test_batch_and_sizes_may_not_name_one_axis(model: Path) -> None:
    request = BuildRequest(onnx=model, output=model.with_name("m.engine"), sizes={"batch": 2, "sequence": 5}, batch="4")
    with pytest.raises(UsageError, match="--batch 4: --sizes batch=2,sequence=5 fixes the first axis already"):
        build(request)
    assert not model.with_name("m.engine").exists()
