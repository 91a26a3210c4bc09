"""The plugin library for aarch64 (Jetson, ARM servers), made by a cross compiler and run by QEMU."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from lenet_trt.cli import main
from lenet_trt.cuda.compile import cuda_include_dir
from lenet_trt.kernel import registry
from lenet_trt.tensorrt.library.compile import COMPILERS
from library_probes import compiled, data_of, headers_of
from shared_session import made_once

COMPILER = COMPILERS["aarch64"]
SYSTEM = Path("/usr/aarch64-linux-gnu")  # where Debian has the libraries of the cross compiler
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
pytestmark = pytest.mark.slow
needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no {COMPILER}")
WEIGHTS = ["6,1,5,5", "6", "16,6,5,5", "16", "120,256", "120", "84,120", "84", "10,84", "10"]


@pytest.fixture(scope="module", params=["8.5", pytest.param("11.1", marks=pytest.mark.slow)])  # JetPack 5 has 8.5
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library, and the headers that it was made with."""
    headers = headers_of(request.param)
    if headers is None:
        pytest.skip(f"TensorRT's headers of {request.param} are not here")
    words = ["library", "--target", "aarch64", "--headers", str(headers.folder), "-o"]

    def make(output: Path) -> None:
        with mock.patch.dict(os.environ, {"CXXFLAGS": "-O0"}):
            assert main([*words, str(output)]) == 0

    return made_once(tmp_path_factory, f"aarch64/plugins-{request.param}.so", make), headers.folder


@needs_compiler
def test_it_is_a_library_for_aarch64_that_needs_neither_tensorrt_nor_cuda(made: tuple[Path, Path]) -> None:
    header = subprocess.run(["readelf", "-hd", made[0]], capture_output=True, text=True, check=True).stdout
    assert "AArch64" in header
    needed = [line.split("[")[1].rstrip("]") for line in header.splitlines() if "NEEDED" in line]
    assert {name.split(".so")[0] for name in needed} <= {"libstdc++", "libgcc_s", "libc", "libm", "ld-linux-aarch64"}


@needs_compiler
@pytest.mark.skipif(EMULATOR is None, reason="there is no qemu-aarch64")
def test_a_plugin_is_made_from_data_and_launches_there_as_here(made: tuple[Path, Path], tmp_path: Path) -> None:
    library, headers = made
    includes = [f"-isystem{folder}" for folder in (headers, cuda_include_dir())]
    options = ("-rdynamic", "-Wno-deprecated-declarations", *includes)
    program = compiled("launch_probe", tmp_path / "probe", *options, compiler=COMPILER)
    compiled("recording_driver", tmp_path / "libcuda.so.1", "-shared", "-fPIC", compiler=COMPILER)
    kernel = registry.kernel("lenet5")
    (tmp_path / "data").write_bytes(data_of(kernel.bind_axes({"n": 3}, kernel.types_named("fp32")), ["sm_87"]))
    settings = {"LD_LIBRARY_PATH": str(tmp_path), "RECORD_SM": "87", "RECORD_ARGUMENTS": "p" * 11 + "ip"}
    given = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
    steps = ["attach", "run", "3,1,28,28", *WEIGHTS, "3,10"]
    command = [str(EMULATOR), "-L", str(SYSTEM), *given, program, library, tmp_path / "data", *steps]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run: prepared 0 enqueued 0 allocations 0" in done.stdout
    launch = next(line for line in done.stdout.splitlines() if line.startswith("cuLaunchKernel "))
    addresses = " ".join(str(256 * i) for i in range(1, 12))
    assert launch.endswith(f"stream 7 with {addresses} 3 {256 * 12}")


def test_without_the_cross_compiler_the_error_names_its_package(tmp_path: Path, monkeypatch, capsys) -> None:
    headers = headers_of("8.5")
    if headers is None:
        pytest.skip("TensorRT's headers of 8.5 are not here")
    monkeypatch.setenv("PATH", str(tmp_path))
    output = tmp_path / "plugins.so"
    assert main(["library", "--target", "aarch64", "--headers", str(headers.folder), "-o", str(output), "--json"]) == 1
    assert f"{COMPILER} is not here: apt install g++-aarch64-linux-gnu" in capsys.readouterr().err
    assert not output.exists()
