"""Report, profile and roofline agree on which model was traced, where it is, and which sizes its axes have."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.trace.timeline import load_timeline, save
from nsys_file import NsysFile
from reported import traced

LAUNCHES = ("conv1", "relu1", "pool1")


def trace_file(folder: Path) -> Path:
    made = NsysFile(folder / "t.sqlite")
    for number in range(4):
        at = 1_000_000 * number
        made.range(f"iteration {number}", at, at + 400_000)
        for index, name in enumerate(LAUNCHES):
            start = at + 10_000 * index
            made.range(name, start, start + 5_000)
            made.launch("k", start + 5_000, start + 14_000, start + 1_000)
    return made.done()


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A model and its timeline in two folders of one."""
    (tmp_path / "dir").mkdir()
    shutil.copy(SHIPPED, tmp_path / "dir" / "x.onnx")
    return tmp_path


def reported(timeline: Path, *more: str) -> dict[str, object]:
    page = timeline.parent / "r.json"
    assert main(["report", str(timeline), "--datasheet", "H200", "--sizes", "n=32", "-o", str(page), *more]) == 0
    found: dict[str, object] = json.loads(page.read_text())
    return found


def test_the_report_finds_the_model_of_a_timeline_in_another_folder(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    source = trace_file(folders)
    assert main(["profile", "dir/x.onnx", "--from", str(source), "-o", "out/t.json"]) == 0
    timeline = load_timeline(folders / "out" / "t.json")
    assert timeline.model == "../dir/x.onnx"
    assert reported(Path("out/t.json"))["missing"] == {}
    monkeypatch.chdir(folders / "out")
    assert reported(Path("t.json"))["missing"] == {}


def test_a_timeline_that_moved_finds_the_model_beside_it(folders: Path) -> None:
    source = trace_file(folders)
    assert main(["profile", str(folders / "dir/x.onnx"), "--from", str(source), "-o", str(folders / "out/t.json")]) == 0
    moved = folders / "elsewhere" / "deep"
    moved.mkdir(parents=True)
    shutil.move(folders / "out/t.json", moved / "t.json")
    shutil.move(folders / "dir/x.onnx", moved / "x.onnx")
    assert reported(moved / "t.json")["missing"] == {}


def test_a_model_that_changed_since_is_not_taken(folders: Path) -> None:
    source = trace_file(folders)
    model = folders / "dir/x.onnx"
    assert main(["profile", str(model), "--from", str(source), "-o", str(folders / "t.json")]) == 0
    model.write_bytes(model.read_bytes() + b"\x08\x00")
    missing = reported(folders / "t.json")["missing"]
    assert isinstance(missing, dict)
    assert "x.onnx has changed since the trace was made" in missing["roofline"]


def test_the_model_of_another_content_is_passed_over_for_the_right_one(folders: Path) -> None:
    source = trace_file(folders)
    model = folders / "dir/x.onnx"
    assert main(["profile", str(model), "--from", str(source), "-o", str(folders / "t.json")]) == 0
    shutil.copy(model, folders / "x.onnx")
    model.write_bytes(b"something else")
    assert reported(folders / "t.json")["missing"] == {}


def test_an_engine_without_a_sidecar_says_what_is_wanted(folders: Path) -> None:
    (folders / "x.engine").write_bytes(b"engine")
    save(replace(traced(), model="x.engine", model_sha256=None), folders / "t.json")
    missing = reported(folders / "t.json")["missing"]
    assert isinstance(missing, dict)
    assert "its ONNX file is not known" in missing["roofline"]
    assert "--model" in missing["roofline"]


SIZES = ["n=²", "n=0", "n=-1", "n=1.5", "n=", "=3", "n", "n=99999999999999999999", "n=2147483648", "n=٣"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("verb", ["report", "roofline", "profile"])
def test_sizes_that_are_none_are_refused_by_every_verb(
    verb: str, size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(traced(model=None), tmp_path / "t.json")
    given = {
        "report": ["report", str(tmp_path / "t.json"), "--model", str(SHIPPED), "-o", str(tmp_path / "r.md")],
        "roofline": ["roofline", str(SHIPPED), "--datasheet", "H200"],
        "profile": ["profile", str(SHIPPED), "-o", str(tmp_path / "out.json")],
    }[verb]
    assert main([*given, "--sizes", size]) == 2
    said = capsys.readouterr().err
    assert "--sizes" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("batch", ["0", "-4", "99999999999"])
@pytest.mark.parametrize("verb", [["roofline", "--datasheet", "H200"], ["profile"]], ids=["roofline", "profile"])
def test_a_batch_that_is_none_is_refused(verb: list[str], batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([verb[0], str(SHIPPED), *verb[1:], "--batch", batch])
    except SystemExit as stop:  # refused while the options are parsed
        status = int(stop.code or 0)
    assert status == 2
    assert "batch" in capsys.readouterr().err


def test_without_floors_the_report_says_what_could_not_be_judged(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(traced(model=None), folders / "t.json")
    for name in ("r.md", "r.html"):
        assert main(["report", str(folders / "t.json"), "-o", str(folders / name)]) == 0
        page = (folders / name).read_text("utf-8")
        assert "Not judged: 72" in page
        assert "nothing is lost" not in page
        assert "nothing worth a change" not in page
    capsys.readouterr()
    assert main(["report", str(folders / "t.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_judged"]
