"""Find NVRTC, the compiler, and what it knows, without loading its 100 MB where an earlier process asked it.

Its answers are kept in ``files.cache_dir("nvrtc")``. They hold as long as its file is the same, and no other NVRTC came
or went in the folders that are searched.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from lenet_trt.cuda.nvrtc_library import NvrtcLibrary
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, write_atomic
from lenet_trt.schema import Count, read_json

# lenet-trt depends on CUDA's packages only on x86-64: JetPack 6 has CUDA 12, to which packages for CUDA 13 do not fit.
INSTALL = "pip install 'lenet-trt[cuda13]'"
if platform.machine() == "aarch64":
    INSTALL += " where the driver is for CUDA 13; on a Jetson with JetPack 6, pip install 'lenet-trt[jetpack6]'"
# cuda-bindings looks in these folders, and where the dynamic linker looks. Source: cuda.pathfinder 1.9.
_IN_PACKAGES = ("cu13/lib", "cuda_nvrtc/lib")
_IN_TOOLKITS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_TOOLKITS = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")
_LINKER_FOLDERS = "LD_LIBRARY_PATH"
_LINKER_CACHE = Path("/etc/ld.so.cache")
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")

_INSTALL_MAJOR = {"12": "pip install 'lenet-trt[nvrtc12]'", "13": INSTALL}

# The file of the NVRTC that was asked for in the place of the bindings' own; see ``compiling_by``.
_asked: Path | None = None


@dataclass(frozen=True)
class Compiler:
    """Describe an NVRTC: ``identity`` differs for each installed one; architectures are oldest first."""

    identity: str
    version: str
    architectures: tuple[int, ...]


@contextlib.contextmanager
def compiling_by(major: str | None) -> Iterator[None]:
    """Compile by the NVRTC of that major version, where its package or toolkit is here; None: by the usual one.

    Drivers load what an NVRTC of their own major version or an older one made.

    Raises:
        LenetTrtError: it is not here; says what to install.
    """
    global _asked
    if major is None:
        yield
        return
    before = _asked
    found = next((path for path in _candidates() if path.name == f"libnvrtc.so.{major}"), None)
    if found is None:
        raise LenetTrtError(
            f"NVRTC {major} is not here (libnvrtc.so.{major} in NVIDIA's packages, a CUDA toolkit or on "
            f"{_LINKER_FOLDERS}): {_INSTALL_MAJOR[major]}"
        )
    _asked = found
    try:
        _forget()
        yield
    finally:
        _asked = before
        _forget()


def chosen_file() -> Path | None:
    """Return the file of the NVRTC that was asked for, or None where it is the usual one."""
    return _asked


def _forget() -> None:
    loaded_compiler.cache_clear()
    bindings.cache_clear()


def compiler() -> Compiler:
    """Return the installed NVRTC; it is loaded only if its answers are not in the cache.

    Raises:
        LenetTrtError: NVRTC cannot be used.
    """
    if loaded_compiler.cache_info().currsize or _asked is not None:
        return loaded_compiler()
    return _kept() or loaded_compiler()


@cache
def loaded_compiler() -> Compiler:
    """Return the NVRTC that compiles in this process; it is not the installed one where a library brought its own.

    Raises:
        LenetTrtError: NVRTC cannot be used.
    """
    nvrtc = bindings()
    status, major, minor = nvrtc.nvrtcVersion()
    check(status)
    version, architectures = f"{major}.{minor}", tuple(ask_nvrtc(nvrtc.nvrtcGetSupportedArchs()))
    library = _asked or _loaded_library()
    if library is None:
        return Compiler(version, version, architectures)
    found = Compiler(identity(library), version, architectures)
    if _asked is not None:
        return found
    kept = {"library": str(library), "identity": found.identity, "version": version, "architectures": architectures}
    with contextlib.suppress(LenetTrtError):  # the cache cannot be written: the next process asks again
        write_atomic(_answers(), json.dumps(kept).encode())
    return found


def identity(library: Path) -> str:
    """Return what changes when another NVRTC is installed: the file, and its distributions beside it.

    Raises:
        OSError: there is no such file.
    """
    library = library.resolve()
    found = library.stat()
    # .../site-packages/nvidia/cu13/lib/libnvrtc.so.13
    beside = library.parents[3].glob("nvidia_cuda_nvrtc*.dist-info") if len(library.parents) > 3 else ()
    return " ".join((str(library), _size_and_time(found), *sorted(path.name for path in beside)))


@cache
def bindings() -> Any:
    """Load the library and return the compiler's functions.

    Raises:
        LenetTrtError: NVRTC cannot be used.
    """
    try:
        if _asked is not None:
            return NvrtcLibrary(_asked)
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise LenetTrtError(f"NVRTC, the compiler, cannot be used ({reason}): {INSTALL}") from error
    return nvrtc


def ask_nvrtc(answer: tuple[Any, Any]) -> Any:
    """Check what NVRTC returns and unpack its value.

    Raises:
        LenetTrtError: the call failed.
    """
    status, value = answer
    check(status)
    return value


def check(status: Any) -> None:
    """Raise an error where NVRTC answers that a call failed.

    Raises:
        LenetTrtError: the call failed.
    """
    if int(status) != 0:
        raise LenetTrtError(f"NVRTC answers {status.name}")


@cache
def _kept() -> Compiler | None:
    """Return the kept answers of the installed NVRTC, or None."""
    with contextlib.suppress(LenetTrtError, OSError):  # never stored, deleted, or damaged
        kept = read_json(_answers(), _Answers, wanted="what NVRTC answered", fix="it is asked again")
        if kept["architectures"] and kept["identity"] == identity(Path(kept["library"])):
            return Compiler(kept["identity"], kept["version"], kept["architectures"])
    return None


class _Answers(TypedDict):
    library: str
    identity: str
    version: str
    architectures: tuple[Count, ...]


def _answers() -> Path:
    """Return the path of the kept answers; its name depends on everything that decides which NVRTC is found."""
    decide = [identity(path) for path in _candidates()]
    decide += [f"{name}={os.environ.get(name, '')}" for name in (_LINKER_FOLDERS, *_TOOLKITS)]
    with contextlib.suppress(OSError):
        decide.append(_size_and_time(_LINKER_CACHE.stat()))
    return cache_dir("nvrtc") / f"{hashlib.sha256(chr(10).join(decide).encode()).hexdigest()[:24]}.json"


def _candidates() -> Iterator[Path]:
    """Return every NVRTC in the folders that are searched, in any order."""
    folders = [Path(folder) for folder in os.environ.get(_LINKER_FOLDERS, "").split(os.pathsep) if folder]
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        folders += [Path(root) / folder for folder in _IN_PACKAGES]
    for variable in _TOOLKITS:
        if os.environ.get(variable):
            folders += [Path(os.environ[variable]) / folder for folder in _IN_TOOLKITS]
    for folder in folders:
        for name in _NAMES:
            if (folder / name).is_file():
                yield folder / name


def _size_and_time(found: os.stat_result) -> str:
    """Return size and time; the time is in whole seconds, because images of containers keep no more."""
    return f"{found.st_size} {int(found.st_mtime)}"


def _loaded_library() -> Path | None:
    """Return the file from which the compiler was loaded, where it can be known."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("nvrtc").abs_path
    except (ImportError, RuntimeError):
        return None
    return Path(path) if path and Path(path).is_file() else None
