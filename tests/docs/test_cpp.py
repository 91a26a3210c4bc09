"""The page on C++: its program compiles against TensorRT's headers, and its commands are those that there are."""

from __future__ import annotations

import json
import shutil
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


CROSS = (
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
)


# tests/library compiles the same sources against the headers of every version.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "target", "machine"),
    [("8.5", (), 62), ("11.1", (), 62), ("11.1", CROSS, 183)],
    ids=["8.5", "11.1", "11.1 aarch64"],
)
def test_cmake_builds_and_installs_the_library(
    tmp_path: Path, version: str, target: tuple[str, ...], machine: int
) -> None:
    headers = headers_of(version)
    needed = ["cmake", "aarch64-linux-gnu-g++"] if target else ["cmake"]
    if headers is None or not all(map(shutil.which, needed)):
        pytest.skip(f"TensorRT's headers of {version}, or one of {', '.join(needed)}, are not here")
    source = ROOT / "lenet_trt" / "tensorrt" / "library" / "cpp"
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    options = [
        f"-DTENSORRT_INCLUDE={headers.folder}",
        f"-DCUDA_INCLUDE={cuda_include_dir()}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        *target,
    ]
    for command in (
        ["cmake", "-S", source, "-B", build, *options],
        ["cmake", "--build", build],
        ["cmake", "--install", build, "--prefix", prefix],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    calls = json.loads((build / "compile_commands.json").read_text())
    assert all("-O3" in each["command"] for each in calls)
    (library,) = prefix.rglob("liblenet_trt_plugins.so")
    assert int.from_bytes(library.read_bytes()[18:20], "little") == machine  # e_machine of ELF
