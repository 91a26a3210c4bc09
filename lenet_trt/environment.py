"""What a measurement was made with: GPU, driver, versions, clocks and the state of the code."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lenet_trt import __version__
from lenet_trt.compile import nvrtc_version
from lenet_trt.device import ask, current_context, driver
from lenet_trt.errors import LenetTrtError
from lenet_trt.gpu import gpus

_PACKAGES = ("torch", "triton", "nvidia-cudnn-cu13", "nvidia-cublas", "cuda-bindings", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Clocks:
    """The GPU's state at one moment, as nvidia-smi tells it."""

    sm_mhz: int
    memory_mhz: int
    temperature_c: int
    power_w: float


def environment() -> dict[str, object]:
    """The GPU in use, and the versions of everything that decides a timing.

    Raises:
        LenetTrtError: there is no GPU.
    """
    context = current_context()
    name, version, memory = _nvidia_smi("name,driver_version,memory.total", context.device)
    attribute = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
    return {
        "gpu": name,
        "sm": context.sm,
        "multiprocessors": context.multiprocessors,
        "l2_bytes": int(ask(driver().cuDeviceGetAttribute(attribute, context.device), "cannot ask for the L2 cache")),
        "memory_mib": int(memory),
        "driver": version,
        "driver_cuda": gpus().driver_cuda,
        "nvrtc": nvrtc_version(),
        "lenet_trt": __version__,
        "python": platform.python_version(),
        "packages": dict(filter(None, map(_package, _PACKAGES))),
    }


def clocks(device: int = 0) -> Clocks:
    """The GPU's clocks now; reading them changes none.

    Raises:
        LenetTrtError: nvidia-smi is not there or does not answer.
    """
    sm, memory, temperature, power = _nvidia_smi("clocks.sm,clocks.mem,temperature.gpu,power.draw", device)
    return Clocks(int(sm), int(memory), int(temperature), float(power))


def commit(folder: Path) -> str | None:
    """The commit that is checked out in ``folder``, "-modified" added where files differ; None without git."""
    try:
        head = _run(["git", "-C", str(folder), "rev-parse", "HEAD"])
        changed = _run(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("-modified" if changed else "")


def _package(name: str) -> tuple[str, str] | None:
    try:
        return name, metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _nvidia_smi(query: str, device: int) -> list[str]:
    command = ["nvidia-smi", f"--id={device}", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        return [field.strip() for field in _run(command).split(",")]
    except (OSError, subprocess.SubprocessError) as error:
        raise LenetTrtError(f"cannot ask nvidia-smi for {query} ({error}): it comes with the driver") from error


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()
