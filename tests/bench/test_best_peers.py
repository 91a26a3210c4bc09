"""TensorRT at its best: kernels of cuBLAS and cuDNN are measured only where the real libraries were opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lenet_trt.bench import engines
from lenet_trt.bench.__main__ import command
from lenet_trt.bench.engine_workloads import EXTERNAL, LEVEL_5, OURS, TF32, THEIRS, engine_workloads
from lenet_trt.bench.external_tactics import check_libraries, external_flags, logged
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.capabilities import capabilities
from trtexec_script import GPU, script_for_trtexec

NAMES = {
    "libcublas.so.12": "cublasCreate_v2",
    "libcublasLt.so.12": "cublasLtCreate",
    "libcudnn.so.8": "cudnnCreate",
}
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler here")


def compiled(path: Path, function: str) -> None:
    source = f"__attribute__((constructor)) static void begin(void) {{}}\nint {function}(void) {{ return 0; }}\n"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)


def libraries(folder: Path, **functions: str) -> Path:
    """A folder with libraries of these names; a function of another name stands for an empty file's content."""
    folder.mkdir(exist_ok=True)
    for name, function in NAMES.items():
        compiled(folder / name, functions.get(name.partition(".")[0], function))
    return folder


def opening(logs: Path, folder: Path | None) -> None:
    """Let a program open the libraries in a folder by their bare names, as TensorRT does, while the loader logs."""
    logs.mkdir(exist_ok=True)
    code = "import ctypes, sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)"
    words = list(NAMES) if folder is not None else []
    path = {"LD_LIBRARY_PATH": str(folder)} if folder is not None else {}
    subprocess.run([sys.executable, "-c", code, *words], env={**os.environ, **path, **logged(logs)}, check=True)


def test_the_flags_are_those_of_trtexec() -> None:
    for version in ("8.5", "8.6", "9.1"):
        assert external_flags(capabilities("tensorrt", version), "trtexec") == [
            "--preview=-disableExternalTacticSourcesForCore0805",
            "--tacticSources=+CUBLAS,+CUBLAS_LT,+CUDNN",
        ]
    with pytest.raises(LenetTrtError, match=r"trtexec 10\.3 takes no kernels of cuBLAS and cuDNN"):
        external_flags(capabilities("tensorrt", "10.3"), "trtexec 10.3")


@needs_compiler
def test_real_libraries_are_told_from_empty_ones_and_none(tmp_path: Path) -> None:
    opening(tmp_path / "none", None)
    with pytest.raises(LenetTrtError, match=r"no libcublas\.so was opened: .* LD_LIBRARY_PATH"):
        check_libraries(tmp_path / "none")
    stand_ins = libraries(tmp_path / "stub", libcudnn="stub")
    opening(tmp_path / "logs", stand_ins)
    with pytest.raises(LenetTrtError, match=rf"{stand_ins}/libcudnn\.so\.8 is not the real library \(it has no cudnnC"):
        check_libraries(tmp_path / "logs")
    opening(tmp_path / "real", libraries(tmp_path / "lib"))
    check_libraries(tmp_path / "real")


@needs_compiler
def test_the_library_that_was_found_first_counts(tmp_path: Path) -> None:
    """The loader tries folders in their order, and opens the first file."""
    real, stand_ins = libraries(tmp_path / "lib"), libraries(tmp_path / "stub", libcublas="stub")
    opening(tmp_path / "logs", Path(f"{real}:{stand_ins}"))
    check_libraries(tmp_path / "logs")
    opening(tmp_path / "other", Path(f"{stand_ins}:{real}"))
    with pytest.raises(LenetTrtError, match="is not the real library"):
        check_libraries(tmp_path / "other")


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | None], list[engines.Row]]:
    """Measure with a program that opens the libraries of a folder, as trtexec does."""
    monkeypatch.setattr(engines, "first_gpu", lambda: GPU)
    program = script_for_trtexec(tmp_path, monkeypatch)

    def measure(folder: Path | None) -> list[engines.Row]:
        if folder is not None:
            monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
            text = program.read_text()
            opens = "".join(f"import ctypes; ctypes.CDLL({name!r})\n" for name in NAMES)
            program.write_text(text.replace('if "saveEngine" in options:', f'{opens}if "saveEngine" in options:'))
        library = program.with_name("plugins.so")
        options = SuiteOptions(quick=True, trtexec=str(program), library=library, batches=(1,), best_peers=True)
        record = engines.measure(options)
        calls = [json.loads(line) for line in Path(f"{program}.calls").read_text().splitlines()]
        asked = [call for call in calls if "tacticSources" in call]
        assert len(asked) == 1
        assert asked[0]["tacticSources"] == "+CUBLAS,+CUBLAS_LT,+CUDNN"
        assert asked[0]["preview"] == "-disableExternalTacticSourcesForCore0805"
        assert "noTF32" in asked[0]
        return list(record.rows)

    return measure


def test_without_the_libraries_the_row_says_why(measured: Callable[[Path | None], list[engines.Row]]) -> None:
    rows = {row.backend: row for row in measured(None)}
    assert rows[EXTERNAL].stats is None
    assert "no libcublas.so was opened" in str(rows[EXTERNAL].why)
    assert all(rows[name].stats for name in (THEIRS, TF32, LEVEL_5, OURS))


@needs_compiler
def test_with_the_libraries_the_row_has_a_time(
    measured: Callable[[Path | None], list[engines.Row]], tmp_path: Path
) -> None:
    rows = {row.backend: row for row in measured(libraries(tmp_path / "lib"))}
    assert rows[EXTERNAL].stats is not None


def test_the_other_ways_are_measured_where_they_are_asked_for() -> None:
    usual = {each.name: set(each.backends) for each in first(SuiteOptions())}
    every = {each.name: set(each.backends) for each in first(SuiteOptions(best_peers=True))}
    for name in ("LeNet-5 fp32", "LeNet-5 fp16", "Conv fp32", "Conv + ReLU + pool fp16"):
        assert EXTERNAL not in usual[name]
        assert {EXTERNAL, LEVEL_5} <= every[name]
    assert EXTERNAL not in usual["MatMul fp32"]
    assert every["MatMul fp32"] == {THEIRS, EXTERNAL, OURS}


def first(options: SuiteOptions) -> list[engines.EngineWorkload]:
    found = []
    for each in engine_workloads(options):
        found.append(replace(each))
        if each.name == "Conv + ReLU + pool fp16":
            break
    return found


def test_the_option_reaches_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    from lenet_trt.bench import __main__ as verb

    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)

    def measure(name: str, options: SuiteOptions) -> None:
        raise LenetTrtError(f"{options.best_peers} {options.command}")

    monkeypatch.setattr(verb, "_measure", measure)
    with pytest.raises(LenetTrtError, match="True lenet-trt bench engines --best-peers"):
        command(parser.parse_args(["engines", "--best-peers"]))
