"""Turn mangled names of C++ kernels into readable ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def demangled(name: str) -> str:
    """Turn ``_Z3addPfi`` into ``add(float*, int)`` with the C++ library's function; leave other names as they are."""
    demangle = _demangler()
    if not name.startswith("_Z") or demangle is None:
        return name
    return demangle(name) or name


@cache
def _demangler() -> Callable[[str], str | None] | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:  # an image without it: mangled names are still right
        return None
    function, free = library.__cxa_demangle, ctypes.CDLL(None).free
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    function.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]

    def demangle(name: str) -> str | None:
        status = ctypes.c_int()
        answer = function(name.encode(), None, None, ctypes.byref(status))
        if status.value != 0 or not answer:
            return None
        try:
            return ctypes.string_at(answer).decode(errors="replace")
        finally:
            free(answer)

    return demangle
