"""An NVRTC that is named by its file: what ``cuda.bindings.nvrtc`` has for its own, for the calls that we make."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_SUCCESS = 0


class Status(int):
    """What a call answers; ``name`` is NVRTC's word for it."""

    name: str


class nvrtcResult:  # noqa: N801 (as the bindings name it)
    """The answer of a call that did what it was asked."""

    NVRTC_SUCCESS = _SUCCESS


class NvrtcLibrary:
    """The compiler in a file ``libnvrtc.so.12``, beside which lie its builtins.

    Its methods have the names and answers of ``cuda.bindings.nvrtc``.

    Raises:
        OSError: the file cannot be loaded.
    """

    nvrtcResult = nvrtcResult  # noqa: N815

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def nvrtcVersion(self) -> tuple[Status, int, int]:  # noqa: N802
        """Return the version."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        status = self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return status, major.value, minor.value

    def nvrtcGetSupportedArchs(self) -> tuple[Status, list[int]]:  # noqa: N802
        """Return the architectures, oldest first."""
        count = ctypes.c_int()
        status = self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        return (self._call("nvrtcGetSupportedArchs", found) if status == _SUCCESS else status), list(found)

    def nvrtcCreateProgram(  # noqa: N802
        self, source: bytes, name: bytes, count: int, headers: list[bytes], names: list[bytes]
    ) -> tuple[Status, Any]:
        """Make a program of a source; ``headers`` are none."""
        program = ctypes.c_void_p()
        status = self._call("nvrtcCreateProgram", ctypes.byref(program), source, name, count, None, None)
        return status, program

    def nvrtcCompileProgram(self, program: Any, count: int, options: list[bytes]) -> tuple[Status]:  # noqa: N802
        """Compile a program."""
        return (self._call("nvrtcCompileProgram", program, count, (ctypes.c_char_p * count)(*options)),)

    def nvrtcDestroyProgram(self, program: Any) -> tuple[Status]:  # noqa: N802
        """Let go of a program."""
        return (self._call("nvrtcDestroyProgram", ctypes.byref(program)),)

    def __getattr__(self, name: str) -> Any:
        """The functions that tell a size (``nvrtcGetPTXSize``), or fill a buffer of that size (``nvrtcGetPTX``)."""
        if not name.startswith("nvrtcGet"):
            raise AttributeError(name)
        if not name.endswith("Size"):
            return lambda program, buffer: (self._call(name, program, buffer),)

        def size(program: Any) -> tuple[Status, int]:
            found = ctypes.c_size_t()
            return self._call(name, program, ctypes.byref(found)), found.value

        return size

    def _call(self, name: str, *arguments: Any) -> Status:
        status = Status(getattr(self._library, name)(*arguments))
        status.name = self._library.nvrtcGetErrorString(int(status)).decode()
        return status
