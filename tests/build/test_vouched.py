"""An engine is the one that its sidecar speaks of, by its content: whatever the files are called."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.tensorrt import TensorRt, in_order
from lenet_trt.tensorrt.vouch import vouched

SUFFIXES = (".engine", ".json", ".engine.onnx")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two engines of LeNet-5, a.engine and b.engine, that differ in their profiles."""
    folder = tmp_path_factory.mktemp("engines")
    for name, batch in (("a", "1:1:1"), ("b", "1:1:2")):
        build(BuildRequest(onnx=SHIPPED, batch=batch, output=folder / f"{name}.engine"))
    return folder


@pytest.fixture
def engines(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "engines"))


def refused(engine: Path, said: str) -> None:
    for ask in (vouched, load):
        with pytest.raises(LenetTrtError, match=said):
            ask(engine)
    assert main(["inspect", str(engine)]) == 1


def test_files_that_were_renamed_together_are_still_that_engine(engines: Path) -> None:
    for suffix in SUFFIXES:
        (engines / f"a{suffix}").rename(engines / f"c{suffix}")
    assert vouched(engines / "c.engine").engine.name == "a.engine"
    assert load(engines / "c.engine", "ort-cpu").runtime
    assert main(["inspect", str(engines / "c.engine")]) == 0
    again = build(BuildRequest(onnx=SHIPPED, batch="1:1:1", output=engines / "c.engine"))
    assert again.reused


def test_the_sidecar_of_another_engine_vouches_for_nothing(engines: Path) -> None:
    shutil.copy(engines / "b.json", engines / "a.json")
    refused(engines / "a.engine", "bytes, and its sidecar says|is not what its sidecar says")


def test_an_engine_of_the_same_size_with_another_content_is_refused(engines: Path) -> None:
    """Its size is right and its name is: only its hash tells."""
    path = engines / "a.engine"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(path, r"is not what its sidecar says \(SHA-256 differs\)")


def test_an_engine_is_hashed_at_each_load(engines: Path) -> None:
    """One that was right when it was loaded first is not believed for ever."""
    path = engines / "a.engine"
    before = path.stat()
    load(path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(path, "SHA-256 differs")


def test_a_model_that_was_renamed_or_changed_is_not_run_for_the_engine(engines: Path) -> None:
    (engines / "a.engine.onnx").rename(engines / "other.onnx")
    with pytest.raises(
        LenetTrtError, match=r"a\.engine\.onnx, the model from which it was built, is missing or was changed"
    ):
        load(engines / "a.engine", "ort-cpu")
    data = bytearray((engines / "other.onnx").read_bytes())
    data[-1] ^= 1
    (engines / "a.engine.onnx").write_bytes(data)
    with pytest.raises(LenetTrtError, match="is missing or was changed"):
        load(engines / "a.engine", "ort-cpu")


def test_the_bytes_that_are_deserialized_are_those_that_were_hashed(engines: Path) -> None:
    """A file that is replaced between the look at it and the load is not run."""
    sidecar = vouched(engines / "a.engine")
    shutil.copy(engines / "b.engine", engines / "a.engine")
    with pytest.raises(LenetTrtError, match=r"the content of .*a\.engine does not match its sidecar"):
        TensorRt(engines / "a.engine", sidecar)


def test_the_tensors_of_an_engine_are_in_the_order_of_its_model(engines: Path) -> None:
    """TensorRT may list the outputs of an engine in another order: 8.6.0 did, of a detector's three."""
    sidecar = vouched(engines / "a.engine")
    entry = {"io": "output", "dtype": "float32", "shape": [1]}
    detector = replace(sidecar, tensors=dict.fromkeys(("images", "boxes", "scores", "classes"), entry))
    assert in_order(["images", "classes", "scores", "boxes"], detector) == ["images", "boxes", "scores", "classes"]
    assert in_order(["b", "a"], None) == ["b", "a"], "nothing tells the order of the model"


def test_a_file_that_is_no_engine_is_told_by_its_content(engines: Path) -> None:
    refused(engines / "a.json", "a.json is not an engine: .json is the suffix of an engine's sidecar")
    (engines / "images.npy").write_bytes(b"\x93NUMPY\x01\x00")
    refused(engines / "images.npy", "starts with the bytes 93 4e 55 4d 50 59 01 00; wanted an ONNX file")
    with pytest.raises(LenetTrtError, match=r"which starts with ftrt or vtrt$"):  # --trust makes no engine of it
        load(engines / "images.npy")


def test_the_sidecar_of_an_engine_that_is_there_is_not_given_to_another(engines: Path) -> None:
    before = (engines / "a.json").read_bytes()
    wanted = BuildRequest(onnx=SHIPPED, batch="1:1:1", output=engines / "a.plan")
    with pytest.raises(LenetTrtError, match=r"a\.json is the sidecar of .*a\.engine, .* another name"):
        build(wanted)
    assert (engines / "a.json").read_bytes() == before
    assert not (engines / "a.plan").exists()
    (engines / "a.engine").unlink()
    build(wanted)
    assert vouched(engines / "a.plan").engine.name == "a.plan"
