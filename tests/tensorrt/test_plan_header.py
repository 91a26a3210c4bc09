"""An engine that was made elsewhere: its first bytes tell who made it, and nothing of it is deserialized."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.cuda.gpus import sm_text
from lenet_trt.onnx_model.profiles import profile_for
from lenet_trt.onnx_model.read import load_model
from lenet_trt.tensorrt.engine import engine_from_onnx
from lenet_trt.tensorrt.flavors import RTX_PORTABLE_SMS, installed, select
from lenet_trt.tensorrt.plan_header import read_header

needs_rtx = pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")


@needs_rtx
def test_a_plan_of_tensorrt_rtx_tells_its_version(lenet5: Path, tmp_path: Path) -> None:
    flavor = select("rtx")
    profiles = profile_for({"images": ("n", 1, 28, 28)}, "1")
    path = tmp_path / "other.engine"
    path.write_bytes(engine_from_onnx(load_model(lenet5), flavor, profiles=profiles))
    found = read_header(path)
    assert (found.product, found.version) == ("TensorRT-RTX", flavor.version)


def test_inspect_shows_what_the_first_bytes_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.plan"
    path.write_bytes(struct.pack("<4sI16x4B", b"ftrt", 0, 10, 9, 0, 34) + bytes(1000))
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "TensorRT 10.9.0.34" in said
    assert "1,028 bytes" in said
    assert "--trust" in said
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == "10.9.0.34"
    path.write_bytes(struct.pack("<4sI16x4B", b"ftrt", 7, 10, 9, 0, 34))
    assert read_header(path).version is None, "the header may lie otherwise there"


@pytest.mark.parametrize("content", [b"", b"ftrt", b"hello, world: this is a text"])
def test_what_is_no_plan_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.engine"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 1
    assert "wanted an ONNX file (.onnx), or an engine" in capsys.readouterr().err


@needs_rtx
def test_the_gpus_of_a_portable_plan_are_those_that_the_package_names() -> None:
    assert select("rtx").portable_sms() == RTX_PORTABLE_SMS


@needs_rtx
def test_build_and_inspect_name_the_gpus_of_a_portable_engine_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU of 9.0 is refused, so that "8.0 and later" would promise too much."""
    engine = str(tmp_path / "m.engine")
    assert main(["build", "--batch", "1", "-o", engine]) == 0
    built = capsys.readouterr().out
    assert main(["inspect", engine]) == 0
    for said in (built, capsys.readouterr().out):
        (line,) = [line for line in said.splitlines() if line.startswith("runs on")]
        promised, _, _ = line.partition("(")
        assert promised.split("capability ")[1].strip() == ", ".join(map(sm_text, RTX_PORTABLE_SMS))
        assert sm_text(90) not in promised
