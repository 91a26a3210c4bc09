"""Let TensorRT 8 take kernels of cuBLAS and cuDNN for its own layers, and prove that a build had the real libraries.

TensorRT's plugin library wants both by name, and people without them put empty files in their place. What a build
opened is read from the loader's own log, so it holds for a program that sets its own paths, too.
Source: samples/common/sampleOptions.cpp of NVIDIA/TensorRT, v8.6.0 (the words of the options); ld.so(8) (LD_DEBUG).
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.capabilities import Capabilities

# Library -> a function that the real one has.
_FUNCTIONS = {
    "libcublas.so": b"cublasCreate_v2",
    "libcublasLt.so": b"cublasLtCreate",
    "libcudnn.so": b"cudnnCreate",
}
_OPENED = re.compile(r"(?:trying file=|calling init: )(\S+)")


def external_flags(can: Capabilities, tool: str) -> list[str]:
    """Return the flags of trtexec that make cuBLAS and cuDNN tactic sources.

    Raises:
        LenetTrtError: this release has its own kernels alone.
    """
    if not can.external_tactics:
        raise LenetTrtError(f"{tool} takes no kernels of cuBLAS and cuDNN for its own layers: TensorRT 8 and 9 do")
    sources = ",".join(f"+{name}" for name in can.external_tactics)
    return ["--preview=-disableExternalTacticSourcesForCore0805", f"--tacticSources={sources}"]


def logged(folder: Path) -> dict[str, str]:
    """Return the environment in which the loader logs into the folder what a program opens."""
    return {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(folder / "loader")}


def check_libraries(folder: Path) -> None:
    """Check that a program whose loader logged into the folder had the real cuBLAS and cuDNN.

    Raises:
        LenetTrtError: it opened none of a name, or a file without the library's functions.
    """
    opened = {name: list(_opened(folder, name)) for name in _FUNCTIONS}
    for name, function in _FUNCTIONS.items():
        if not opened[name]:
            raise LenetTrtError(
                f"no {name} was opened: put the folders of cuBLAS and cuDNN, of the versions that this TensorRT is "
                "for, on LD_LIBRARY_PATH"
            )
        if not _has(opened[name][-1], function):
            raise LenetTrtError(
                f"{opened[name][-1]} is not the real library (it has no {function.decode()}): put the real one before "
                "it on LD_LIBRARY_PATH"
            )


def _opened(folder: Path, name: str) -> Iterator[Path]:
    for log in sorted(folder.glob("loader.*")):
        for found in _OPENED.finditer(log.read_text(encoding="utf-8", errors="replace")):
            path = Path(found[1])
            if path.name.startswith(name) and path.is_file():
                yield path


def _has(path: Path, function: bytes) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\0" + function + b"\0") >= 0
