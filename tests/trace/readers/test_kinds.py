"""Whatever file is given: what it is, is seen from its content, and what is wrong with it is said."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.readers import nsys_tool, timeline_from
from lenet_trt.trace.timeline import Activity, Iteration, Timeline, save
from nsys_file import NsysFile


def small(path: Path) -> Path:
    """An export with one kernel."""
    file = NsysFile(path)
    file.launch("gemm", 6000, 16000, 3000)
    return file.done()


def test_a_timeline_is_read_as_it_is(tmp_path: Path) -> None:
    timeline = Timeline(
        "CUPTI 13.0",
        model="a.onnx",
        iterations=(Iteration(0, 0.0, 5.0),),
        activities=(Activity("kernel", "k", 1.0, 2.0, node="n", grid=(1, 2, 3)),),
    )
    save(timeline, tmp_path / "anything.txt")
    assert timeline_from(tmp_path / "anything.txt") == timeline
    assert timeline_from(tmp_path / "anything.txt", model="b.onnx").model == "b.onnx"


def test_the_name_does_not_matter(tmp_path: Path) -> None:
    path = small(tmp_path / "trace.json")
    assert timeline_from(path).activities[0].name == "gemm"
    assert timeline_from(str(path)).activities[0].name == "gemm"


def test_a_compressed_trace_is_unpacked_and_the_copy_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    packed = tmp_path / "trace.sqlite.gz"
    packed.write_bytes(gzip.compress(small(tmp_path / "trace.sqlite").read_bytes()))
    assert timeline_from(packed).activities[0].name == "gemm"
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(LenetTrtError, match=r"trace\.sqlite\.gz cannot be unpacked .*damaged or was cut off"):
        timeline_from(packed)
    packed.write_bytes(gzip.compress(b"nothing"))
    with pytest.raises(LenetTrtError, match=r"trace\.sqlite\.gz is no trace"):
        timeline_from(packed)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty: wanted a report of Nsight Systems"),
        (b"\x7fELF", r"no trace of a known kind \(it begins with b'\\x7fELF'\)"),
        (b"==123== NVPROF is profiling", "no trace of a known kind"),
        (b"{", "is not JSON"),
        (b'{"schema": 1, "source": "x"', "is not JSON"),
        (b'{"schema": 2}', r"no timeline of schema 1 \(its schema: 2\)"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"schema": ' + b"[" * 100_000, "is not JSON"),
        (b'{"traceEvents": []}', "is JSON, but no trace of a known kind"),
        (b"SQLite format 3\0", "was cut off"),
    ],
)
def test_files_that_are_no_traces(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(LenetTrtError, match=said):
        timeline_from(path)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match="does not exist"):
        timeline_from(tmp_path / "missing")
    with pytest.raises(LenetTrtError, match="cannot be read: Is a directory"):
        timeline_from(tmp_path)


def test_several_files_are_those_of_trtexec(tmp_path: Path) -> None:
    path = small(tmp_path / "a.sqlite")
    with pytest.raises(LenetTrtError, match="cannot be read together: several files are the exports of one run"):
        timeline_from(path, path)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report, which only nsys can read."""
    path = tmp_path / "run 1.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 36398880.\n\x0b")
    return path


def program(folder: Path, text: str) -> None:
    """Put a program named nsys into a folder."""
    folder.mkdir()
    path = folder / "nsys"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_report_without_nsys(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lenet_trt.trace.readers.nsys_tool.find_nsys", lambda: None)
    with pytest.raises(LenetTrtError, match=r"nsys was not found: install Nsight Systems .* give the \.sqlite file"):
        timeline_from(report)


def test_a_report_is_known_by_its_first_words_and_a_stream_by_its_name(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lenet_trt.trace.readers.nsys_tool.find_nsys", lambda: None)
    with pytest.raises(LenetTrtError, match="which only nsys can read"):
        timeline_from(report.rename(report.with_name("renamed")))
    stream = report.with_name("a.qdstrm")
    stream.write_bytes(b"\x10\x00")
    with pytest.raises(LenetTrtError, match="run QdstrmImporter -i"):
        timeline_from(stream)


def test_a_report_is_exported_by_nsys(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program here copies an export to where it is told; what it was asked is checked."""
    small(tmp_path / "made.sqlite")
    log = tmp_path / "asked"
    program(tmp_path / "bin", f'echo "$@" > "{log}"\ncp "{tmp_path}/made.sqlite" "$7"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert timeline_from(report).activities[0].name == "gemm"
    asked = log.read_text()
    assert asked.startswith("export --type sqlite --force-overwrite true --output ")
    assert asked.endswith(f"{report}\n")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["asked", "bin", "made.sqlite", "run 1.nsys-rep"]


def test_nsys_is_found_where_installers_put_it_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("2024.6.2", "2025.10.1", "2025.3.1"):
        program(tmp_path / version, "exit 0")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nsys_tool, "_PLACES", (str(tmp_path / "none" / "*"), str(tmp_path / "*" / "nsys")))
    assert nsys_tool.find_nsys() == tmp_path / "2025.10.1" / "nsys"
    monkeypatch.setattr(nsys_tool, "_PLACES", ())
    assert nsys_tool.find_nsys() is None
    monkeypatch.setenv("PATH", str(tmp_path / "2024.6.2"))
    assert nsys_tool.find_nsys() == tmp_path / "2024.6.2" / "nsys"


def test_a_report_that_nsys_refuses(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "echo 'Unknown report version' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with pytest.raises(
        LenetTrtError, match=r"Unknown report version\. The version of Nsight Systems that made a report"
    ):
        timeline_from(report)


def test_json_with_a_mark_of_the_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([{"count": 1}, {"name": "a", "averageMs": 1.0}]), encoding="utf-8-sig")
    assert timeline_from(path).activities[0].node == "a"


def test_a_trace_that_was_compressed_twice_is_refused(tmp_path: Path) -> None:
    """Without end, it would be unpacked as often as it was compressed: until the stack or the disk is full."""
    data = small(tmp_path / "trace.sqlite").read_bytes()
    for _ in range(3):
        data = gzip.compress(data)
    path = tmp_path / "trace.gz"
    path.write_bytes(data)
    with pytest.raises(LenetTrtError, match=r"trace\.gz was compressed twice"):
        timeline_from(path)


def test_a_file_that_grows_without_measure_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """6 MB of gzip can be 6 GB of blanks; the copy ends where no trace would still be growing."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    most = 0

    class Watched(gzip.GzipFile):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal most
            data = super().read(size)
            most += len(data)
            return data

    monkeypatch.setattr(gzip, "open", lambda path: Watched(path))
    path = tmp_path / "bomb.json.gz"
    with gzip.GzipFile(path, "wb") as packed:
        for _ in range(200):
            packed.write(b" " * (1 << 20))
    with pytest.raises(LenetTrtError, match=r"bomb\.json\.gz grows to more than .* bytes"):
        timeline_from(path)
    assert most < 100 << 20
    assert list(scratch.iterdir()) == []
