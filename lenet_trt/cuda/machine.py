"""Describe a GPU of this machine with its driver: what was measured on another one does not count here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lenet_trt import __version__
from lenet_trt.cuda.driver import multiprocessors_of
from lenet_trt.cuda.gpus import gpus, sm_text
from lenet_trt.files import cache_dir

_DRIVER_FILE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Machine:
    """Hold what decides which variant is the fastest: the GPU and its driver."""

    gpu: str
    sm: int
    multiprocessors: int
    driver: str

    def __str__(self) -> str:
        return f"{self.gpu} (sm_{self.sm}, {self.multiprocessors} multiprocessors, driver {self.driver})"

    def tuning_path(self, kernel: str) -> Path:
        """Return where the choices of a kernel are kept for this machine and this version of lenet-trt."""
        words = f"{self.gpu} {sm_text(self.sm)} {self.multiprocessors} {self.driver} {__version__}"
        return tuning_folder() / re.sub(r"[^A-Za-z0-9.]+", "-", words) / f"{kernel}.json"


@cache
def machine_of(device: int = 0) -> Machine | None:
    """Describe a GPU of this machine; None where there is no such GPU."""
    devices = gpus().devices
    if device >= len(devices):
        return None
    gpu = devices[device]
    return Machine(gpu.name, gpu.sm, multiprocessors_of(device), _driver_version())


def tuning_folder() -> Path:
    """Return the folder of all choices, with a folder for each machine."""
    return cache_dir() / "tuned"


@cache
def _driver_version() -> str:
    """Return the driver's version; where Linux does not tell it, the newest CUDA that the driver knows."""
    try:
        found = re.search(r"\b(\d{3,}(?:\.\d+)+)\b", _DRIVER_FILE.read_text())
    except OSError:
        found = None
    return found[1] if found else f"CUDA {gpus().driver_cuda}"
