"""The C++ plugin library, compiled by a C++ compiler from the sources that are installed with the toolkit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lenet_trt.cuda.compile import cuda_include_dir
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import atomic_path

SOURCES = Path(__file__).parent / "cpp"
DEFAULT_NAME = "liblenet_trt_plugins.so"
OPTIONS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")
OLDEST_TENSORRT = (8, 5)
_HEADER = "NvInferRuntime.h"
# The compiler of each processor that --target names: for Jetsons and ARM servers, from any machine.
COMPILERS = {"x86_64": "x86_64-linux-gnu-g++", "aarch64": "aarch64-linux-gnu-g++"}
_TRIPLES = tuple(compiler.removesuffix("-g++") for compiler in COMPILERS.values())


@dataclass(frozen=True)
class Headers:
    """TensorRT's headers, and whose they are."""

    folder: Path
    version: tuple[int, int, int]

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def compile_library(
    output: Path, headers: Headers, *, compiler: str = "g++", options: Sequence[str] = (), cuda: Path | None = None
) -> None:
    """Compile the plugin library for the TensorRT that the headers are of.

    ``options`` come after those that it is always compiled with. ``cuda`` is the folder of cuda_runtime_api.h, which
    TensorRT's headers include; None: found as for kernels.

    Raises:
        LenetTrtError: the compiler is missing or refuses (its words are in the message).
    """
    if shutil.which(compiler) is None:
        cross = compiler in COMPILERS.values()
        package = f"g++-{compiler.removesuffix('-g++').replace('_', '-')}" if cross else "g++"
        raise LenetTrtError(
            f"the C++ compiler {compiler} is not here: apt install {package}, or name another with --compiler"
        )
    sources = sorted(map(str, SOURCES.glob("*.cpp")))
    # As system headers, so that their own warnings are not ours.
    includes = [f"-isystem{folder}" for folder in (headers.folder, cuda or cuda_include_dir())]
    with atomic_path(output) as temporary:
        command = [compiler, *OPTIONS, *options, *includes, *sources, "-o", str(temporary), "-ldl", "-pthread"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise LenetTrtError(
                f"{compiler} does not compile the plugin library for TensorRT {headers.version_text}:\n"
                + done.stderr.strip()
            )


def options_from_environment() -> list[str]:
    """The options in $CXXFLAGS, as make and CMake take them."""
    return shlex.split(os.environ.get("CXXFLAGS", ""))


def find_headers(folder: Path | None = None) -> Headers:
    """Find TensorRT's headers in the folder given, or where they are usually installed.

    Raises:
        LenetTrtError: they are not there, or of a TensorRT that is too old; says where to get them.
    """
    if folder is not None:
        for candidate in (folder, folder / "include", *(folder / "include" / triple for triple in _TRIPLES)):
            if (candidate / _HEADER).is_file():
                return _headers(candidate)
        raise LenetTrtError(f"{folder} has no {_HEADER}: {_advice()}")
    for candidate in _usual_folders():
        if (candidate / _HEADER).is_file():
            return _headers(candidate)
    raise LenetTrtError(f"TensorRT's headers ({_HEADER}) are not found: {_advice()}")


def _usual_folders() -> Iterator[Path]:
    for variable in ("TENSORRT_ROOT", "TRT_ROOT", "TENSORRT_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    yield from (Path("/usr/include") / triple for triple in _TRIPLES)
    yield from map(Path, ("/usr/include", "/usr/local/include", "/usr/local/tensorrt/include", "/opt/tensorrt/include"))


def _headers(folder: Path) -> Headers:
    text = (folder / "NvInferVersion.h").read_text(encoding="utf-8", errors="replace")
    numbers = []
    for part in ("MAJOR", "MINOR", "PATCH"):
        found = re.search(rf"#define (?:NV_TENSORRT_{part}|TRT_{part}_ENTERPRISE) (\d+)", text)
        if found is None:
            raise LenetTrtError(f"{folder / 'NvInferVersion.h'} does not say which TensorRT it is of: {_advice()}")
        numbers.append(int(found[1]))
    major, minor, patch = numbers
    if (major, minor) < OLDEST_TENSORRT:
        oldest = ".".join(map(str, OLDEST_TENSORRT))
        raise LenetTrtError(
            f"{folder} is of TensorRT {major}.{minor}.{patch}; the plugin library needs {oldest} or newer"
        )
    return Headers(folder, (major, minor, patch))


def _advice() -> str:
    return (
        "give --headers the include folder of TensorRT's archive, or of a clone of github.com/NVIDIA/TensorRT at the "
        "tag of your version; or apt install libnvinfer-headers-dev from NVIDIA's repository (pip packages have none)"
    )
