"""Memory of this process alone, so that others may use the GPU while a test looks for growth."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from pathlib import Path

import torch

from lenet_trt.cuda.driver import Buffer

_NO_SUCH_FIGURE = 2**64 - 1


class _ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t, whose layout is the same in _v2 and _v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def device_bytes() -> int:
    """All that this process has on the current GPU, freed memory given back.

    By NVML, which counts the driver's share too; where NVML does not know this process (a container with process
    numbers of its own), what torch's allocator and our buffers hold.
    """
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    counted = counted_by_nvml()
    return held() if counted is None else counted


def held() -> int:
    """What torch's allocator and our buffers hold."""
    buffers = sum(each.size_bytes for each in gc.get_objects() if isinstance(each, Buffer))
    return torch.cuda.memory_reserved() + buffers


def counted_by_nvml() -> int | None:
    """What NVML says that this process uses of the current GPU, or None."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    device, count = ctypes.c_void_p(), ctypes.c_uint(1024)
    infos = (_ProcessInfo * count.value)()
    uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != 0:
            return None
        if nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), infos) != 0:
            return None
        own = [info.used_bytes for info in infos[: count.value] if info.pid == os.getpid()]
        return None if len(own) != 1 or own[0] in (0, _NO_SUCH_FIGURE) else int(own[0])
    finally:
        nvml.nvmlShutdown()


def resident_bytes() -> int:
    """What this process has of the host's memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def kept_by_torch_a_capture() -> float:
    """Host memory that torch keeps for each CUDA graph that it captured and freed, a graph of one kernel of its own.

    Some 48 KB with torch 2.11, for an empty graph too; the same capture through the driver alone keeps nothing.
    """
    x = torch.rand(1, 1, 28, 28, device="cuda")
    stream = torch.cuda.Stream()

    def captured(times: int) -> int:
        for _ in range(times):
            with torch.cuda.stream(stream):
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                y = x * 2
                graph.capture_end()
                graph.replay()
            stream.synchronize()
            del graph, y
            torch.cuda.empty_cache()
        device_bytes()
        return resident_bytes()

    before = captured(50)
    return max(0.0, (captured(250) - before) / 250)
