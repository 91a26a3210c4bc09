"""Describe the machine of a measurement: GPU, driver, versions, clocks and the state of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lenet_trt import __version__
from lenet_trt.cuda.compile import nvrtc_version
from lenet_trt.cuda.driver import ask, driver
from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import LenetTrtError

_COMMIT = "LENET_TRT_COMMIT"
# The checkout, where this is one and not an installed copy.
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = (
    "torch",
    "triton",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
    "cuda-bindings",
    "onnxruntime",
    "onnxruntime-gpu",
    "tensorrt",
    "tensorrt-rtx",
    "pycuda",
    "cupy-cuda13x",
    "numpy",
)


@dataclass(frozen=True)
class Clocks:
    """Hold the GPU's state at one moment, from nvidia-smi; None is a value that this GPU does not report.

    ``busy_percent``: the share of the last moments in which a kernel of any process ran.
    """

    sm_mhz: float
    memory_mhz: float
    temperature_c: float | None
    power_w: float | None
    busy_percent: float | None


def environment() -> dict[str, object]:
    """Return the GPU in use (``gpu`` is None without one), the CPU, and the versions that affect timings."""
    return {
        **(_gpu() if gpus().devices else {"gpu": None, "why_no_gpu": gpus().problem}),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "nvrtc": nvrtc_version(),
        "lenet_trt": __version__,
        "python": platform.python_version(),
        "packages": dict(filter(None, map(_package, _PACKAGES))),
    }


def _gpu() -> dict[str, object]:
    """Describe device 0 without making a context: a suite may measure what the first context costs."""
    first = gpus().devices[0]
    attribute = driver().CUdevice_attribute
    device = ask(driver().cuDeviceGet(first.index), "cannot use GPU 0")
    multiprocessors, l2_bytes = (
        int(ask(driver().cuDeviceGetAttribute(which, device), "cannot read the GPU's properties"))
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        )
    )
    try:
        (version,) = _nvidia_smi("driver_version", "0")  # all GPUs have one driver
    except LenetTrtError:
        version = None
    return {
        "gpu": first.name,
        "sm": first.sm,
        "multiprocessors": multiprocessors,
        "l2_bytes": l2_bytes,
        "memory_mib": first.memory_bytes >> 20,
        "driver": version,
        "driver_cuda": gpus().driver_cuda,
    }


def _cpu() -> str:
    """Return the processor's name from Linux, else its architecture."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def clocks() -> Clocks:
    """Return the clocks of GPU 0 now; reading does not change them.

    Raises:
        LenetTrtError: nvidia-smi is missing or does not answer.
    """
    query = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"
    answer = _nvidia_smi(query, _bus_id(0))
    numbers = [_number(text) for text in answer]
    if len(numbers) != len(query.split(",")) or numbers[0] is None or numbers[1] is None:
        raise LenetTrtError(f"nvidia-smi answers {', '.join(answer)!r} when asked for {query}")
    return Clocks(numbers[0], numbers[1], *numbers[2:])


def commit() -> str | None:
    """Return the commit of lenet-trt that runs here, with "-modified" where files differ; None where nothing tells it.

    ``LENET_TRT_COMMIT`` names it for an installed copy; for a clone, git does.
    """
    if named := os.environ.get(_COMMIT):
        return named
    if not (_ROOT / "pyproject.toml").is_file():
        return None
    try:
        head = _run(["git", "-C", str(_ROOT), "rev-parse", "HEAD"])
        changed = _run(["git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("-modified" if changed else "")


def _package(name: str) -> tuple[str, str] | None:
    try:
        return name, metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _bus_id(device: int) -> str:
    """Name the GPU as nvidia-smi does: its numbers count all GPUs, the driver's only those of CUDA_VISIBLE_DEVICES."""
    handle = ask(driver().cuDeviceGet(device), f"cannot use GPU {device}")
    found: bytes = ask(driver().cuDeviceGetPCIBusId(32, handle), "cannot find the GPU on the bus")
    return found.split(b"\0")[0].decode()


def _number(text: str) -> float | None:
    """Return a number, or None for "[N/A]" and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def _nvidia_smi(query: str, device: str) -> list[str]:
    command = ["nvidia-smi", f"--id={device}", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        return [field.strip() for field in _run(command).split(",")]
    except (OSError, subprocess.SubprocessError) as error:
        raise LenetTrtError(f"cannot ask nvidia-smi for {query} ({error}): it comes with the driver") from error


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()
