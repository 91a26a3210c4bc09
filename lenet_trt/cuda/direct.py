"""Launch with arguments that were laid out before: one call of the driver, with the least that Python adds to it.

cuda-bindings converts its arguments in each call, which takes as long as the driver's own part of a launch. Here ctypes
gets C values that never change. The call keeps Python's lock: another thread that took the lock meanwhile would hold it
for up to 5 ms, and the caller of a launch waits for microseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from lenet_trt.cuda.driver import ask, driver
from lenet_trt.errors import LenetTrtError


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h, CUDA 11.8 and newer."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


def kernel_launch(
    function: int,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    table: Any,
    stream: int,
    what: str,
    keep: object = None,
) -> Callable[[], None]:
    """Return a function that launches a kernel; ``table``: a C array with the addresses of its arguments.

    ``what`` begins the message of the error where the driver refuses the launch. The function keeps ``keep`` alive.
    """
    config = _LaunchConfig((*grid,), (*block,), shared_bytes, stream, None, 0)
    arguments = (ctypes.byref(config), ctypes.c_void_p(function), table, None)
    return _call("cuLaunchKernelEx", arguments, what, keep)


def graph_launch(executable: int, stream: int, what: str, keep: object = None) -> Callable[[], None]:
    """Return a function that launches an executable CUDA graph, and keeps ``keep`` alive."""
    return _call("cuGraphLaunch", (ctypes.c_void_p(executable), ctypes.c_void_p(stream)), what, keep)


def stream_done(stream: int, what: str) -> Callable[[], bool]:
    """Return a function that says whether all work in a stream is done; it raises an error where work failed."""
    query, not_ready = driver().cuStreamQuery, driver().CUresult.CUDA_ERROR_NOT_READY

    def done() -> bool:
        (status,) = query(stream)
        if status == not_ready:
            return False
        ask((status,), what)
        return True

    return done


def _call(name: str, arguments: tuple[Any, ...], what: str, keep: object = None) -> Callable[[], None]:
    function = getattr(driver_library(), name)

    def call(keep: object = keep) -> None:
        status = function(*arguments)
        if status:
            ask((driver().CUresult(status),), what)

    return call


@cache
def driver_library() -> ctypes.PyDLL:
    """Return the driver's library, whose functions ctypes calls with Python's lock held."""
    driver()  # says why there is no driver
    try:
        return ctypes.PyDLL("libcuda.so.1")
    except OSError as error:
        raise LenetTrtError(f"the NVIDIA driver's library cannot be opened ({error})") from error
