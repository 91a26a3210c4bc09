"""The page on C++: its program compiles against TensorRT's headers, and its commands are those that there are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from documents import ROOT, commands, fenced
from lenet_trt.cli import parser_for
from lenet_trt.cuda.compile import cuda_include_dir
from library_probes import headers_of, missing_compiler

PAGE = ROOT / "docs" / "cpp.md"


PROGRAMS = ("classify", "latency")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("version", ["8.5", "8.6", "10.0", "11.1"])
def test_the_programs_compile(tmp_path: Path, version: str, name: str) -> None:
    headers = headers_of(version)
    if missing_compiler() or headers is None:
        pytest.skip(missing_compiler() or f"TensorRT's headers of {version} are not here")
    programs = fenced(PAGE, "cpp")
    assert len(programs) == len(PROGRAMS)
    (program,) = (each for each in programs if each.startswith(f"// {name} "))
    source = tmp_path / f"{name}.cpp"
    source.write_text(program)
    includes = [f"-isystem{folder}" for folder in (headers.folder, cuda_include_dir())]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *includes, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_lenet_trt_are_valid() -> None:
    ours = [line.split() for line in commands(PAGE) if line.startswith("lenet-trt ")]
    assert {words[1] for words in ours} == {"export", "fuse", "library"}
    for words in ours:
        parser_for(words[1]).parse_args(words[2:])


@pytest.mark.slow
def test_cmake_builds_the_library(tmp_path: Path) -> None:
    headers = headers_of("8.6")
    if headers is None or subprocess.run(["sh", "-c", "command -v cmake"], capture_output=True).returncode != 0:
        pytest.skip("TensorRT's headers of 8.6, or cmake, are not here")
    source = ROOT / "lenet_trt" / "tensorrt" / "library" / "cpp"
    options = [f"-DTENSORRT_INCLUDE={headers.folder}", f"-DCUDA_INCLUDE={cuda_include_dir()}"]
    subprocess.run(["cmake", "-S", source, "-B", tmp_path, *options], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    assert (tmp_path / "liblenet_trt_plugins.so").is_file()
