"""The verb ``verify``: engines really built by TensorRT-RTX, and the report of a program in trtexec's place."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.bench.engine_workloads import LEVEL_5, OURS, TF32, THEIRS
from lenet_trt.bench.record import load_record
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus
from lenet_trt.kernel.registry import kernels
from lenet_trt.verify import stage
from trtexec_script import GPU, script_for_trtexec, write_library

no_gpu = pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU here")


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The verb in a process of its own, since a plugin library that is loaded stays; no headers are found by chance."""
    command = [sys.executable, "-m", "lenet_trt.verify", "-o", str(folder), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.parent)


@pytest.mark.parametrize("route", [pytest.param("library", marks=pytest.mark.slow), "python"])
def test_every_kernel_and_network_is_really_built_without_a_gpu(
    tmp_path: Path, library: Callable[[str], Path], route: str
) -> None:
    given = ["--library", library("10.16")] if route == "library" else []
    only = ["kernel ", "MatMul"] if route == "library" else ["kernel maxpool2", "kernel dense", "Softmax"]
    done = run(tmp_path / "out", "--build-only", "--sm", "8.6", *given, "--only", *only)
    assert done.returncode == 0, done.stderr
    record = load_record(tmp_path / "out" / "verify.json")
    built = {(row.where, row.backend) for row in record.rows if row.extra["engine_bytes"] > 1000}
    assert len(built) == len(record.rows)
    cases = {case for case, _ in built}
    assert built == {(case, backend) for case in cases for backend in (THEIRS, OURS)}
    workloads = {str(row.case["workload"]) for row in record.rows}
    names = {found[1] for workload in workloads if (found := re.match(r"kernel (\w+) fp", workload))}
    alone = {k.name for k in kernels().values() if any(t.name in ("fp32", "fp16") for t in k.types)}
    assert names == (alone if route == "library" else {"maxpool2", "dense_bias_relu"})
    text = (tmp_path / "out" / "verify.md").read_text()
    assert f"plugins by the route {route} on no GPU" in text
    assert f"{len(cases)} of {len(cases)} engines with our kernels were built; nothing was run." in text
    assert "| built for | 8.6 |" in text
    assert done.stdout.splitlines()[1:] == [str(tmp_path / "out" / name) for name in ("verify.md", "verify.json")]


@no_gpu
def test_without_a_gpu_one_error_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "there is no GPU here to run engines on" in said
    assert "with --build-only every engine is built here by TensorRT-RTX" in said
    assert not (tmp_path / "out").exists()


def test_a_name_that_no_workload_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--build-only", "--only", "sofmax", "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "no workload of the suite engines has 'sofmax' in its name; they are LeNet-5 fp32" in said
    assert "kernel softmax" in said
    assert not (tmp_path / "out").exists()


def test_a_library_of_another_major_and_a_target_without_build_only_are_refused(tmp_path: Path, capsys) -> None:
    write_library(tmp_path / "old.so", "8.6")
    command = ["verify", "-o", str(tmp_path / "out"), "--sm", "8.6", "--library", str(tmp_path / "old.so")]
    assert main([*command, "--build-only"]) == 1
    assert "old.so is a plugin library for TensorRT 8.6, and TensorRT-RTX" in capsys.readouterr().err
    assert main(command) == 2
    assert "add --build-only" in capsys.readouterr().err


def test_a_gpu_that_no_tensorrt_here_takes_is_one_error_with_both_reasons(tmp_path: Path, monkeypatch, capsys) -> None:
    """TensorRT-RTX does not run on 9.0, and trtexec is not on the PATH."""
    monkeypatch.setattr(stage, "first_gpu", lambda: GPU)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["verify", "-o", str(tmp_path / "out"), "--flavor", "rtx"]) == 1
    said = capsys.readouterr().err
    assert (
        "does not run engines on the GPU here, a GPU (9.0), and neither trtexec nor tensorrt_rtx is on the PATH" in said
    )
    assert not (tmp_path / "out").exists()


def test_a_program_of_the_other_flavor_is_not_taken(trtexec: Path, capsys) -> None:
    assert verify(trtexec, "--flavor", "rtx") == 1
    assert "is trtexec 8.6.0, and --flavor rtx was asked for" in capsys.readouterr().err


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stage, "first_gpu", lambda: GPU)
    return script_for_trtexec(tmp_path, monkeypatch)


def verify(program: Path, *words: str) -> int:
    folder = program.parent
    common = ["--trtexec-path", str(program), "--library", str(folder / "plugins.so"), "--batch", "1", "32", "--quick"]
    return main(["verify", "-o", str(folder / "out"), *common, *words])


def test_the_report_says_what_was_built_what_ran_and_how_right_and_fast(trtexec: Path, capsys) -> None:
    assert verify(trtexec, "--json") == 0
    said = capsys.readouterr()
    assert "2 of 2 engines with our kernels were built, ran and are right." in said.err
    assert said.out == (trtexec.parent / "out" / "verify.json").read_text()
    text = (trtexec.parent / "out" / "verify.md").read_text()
    assert text.startswith("# lenet-trt verify: trtexec 8.6.0 on ")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| LeNet")
    ]
    assert [row[2] for row in rows] == [THEIRS, THEIRS, TF32, TF32, LEVEL_5, OURS, OURS]
    for row in rows:
        assert row[3].endswith(" s")
        assert row[4] == row[7] == "yes"
        assert float(row[5]) < 1e-6
        assert (row[8], row[9]) == (("5.00 us", "-") if row[2] == OURS else ("20.00 us", "4"))
    assert "conv1 + relu1: sm80_xmma" in text
    record = load_record(trtexec.parent / "out" / "verify.json")
    assert {row.extra["right"] for row in record.rows} == {True}


@pytest.mark.slow
def test_a_plugin_that_fails_fails_the_command_and_the_rest_is_measured(trtexec: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("CRASH", "1")
    assert verify(trtexec) == 1
    said = capsys.readouterr()
    assert "0 of 2 engines with our kernels were built, ran and are right." in said.out
    assert "plugin node n (lenet5 (fp32), enqueue): cannot launch variant split" in said.err
    text = (trtexec.parent / "out" / "verify.md").read_text()
    assert "## What did not work" in text
    assert text.count("20.00 us") == 5


def test_a_report_of_others_is_not_replaced(trtexec: Path, capsys) -> None:
    folder = trtexec.parent / "out"
    folder.mkdir()
    (folder / "verify.md").write_text("my notes")
    assert verify(trtexec) == 1
    assert "verify.md" in capsys.readouterr().err
    assert (folder / "verify.md").read_text() == "my notes"
