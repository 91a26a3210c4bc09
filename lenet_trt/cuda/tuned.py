"""Say which variant runs a call on the GPU in use: what ``lenet-trt tune`` found for it, else what is declared.

Nothing is read where nothing was tuned, so that a program begins as fast as before.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt import __version__
from lenet_trt.cuda.driver import Context, multiprocessors_of
from lenet_trt.cuda.gpus import gpus, sm_text
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.variants import Variant

if TYPE_CHECKING:
    from lenet_trt.kernel.choice import TunedChoice

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

    @property
    def folder(self) -> str:
        """Return a name for files that are of this machine and of this version of lenet-trt."""
        words = f"{self.gpu} {sm_text(self.sm)} {self.multiprocessors} {self.driver} {__version__}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", words)


def variant_for(bound: Bound, context: Context) -> Variant:
    """Return the variant that runs this call on the GPU in use: the tuned choice, else the declared one."""
    return bound.variant(context.sm, context.sizes, choices_for(bound.kernel, machine_of(context.device)))


@cache
def machine_of(device: int = 0) -> Machine | None:
    """Describe a GPU of this machine; None where there is no such GPU."""
    devices = gpus().devices
    if device >= len(devices):
        return None
    gpu = devices[device]
    return Machine(gpu.name, gpu.sm, multiprocessors_of(device), _driver_version())


@cache
def choices_for(kernel: Kernel, machine: Machine | None) -> tuple[TunedChoice, ...]:
    """Return the tuned choices of a kernel; they are read once in a process. A file that does not count is told of."""
    if machine is None:
        return ()
    path = tuning_path(kernel.name, machine)
    if not path.is_file():
        return ()
    from lenet_trt.cuda.tuning_file import read_tuning

    try:
        return read_tuning(path, kernel, machine).choices
    except LenetTrtError as error:
        warnings.warn(f"{error}. The declared choices of {kernel.name} hold until then", RuntimeWarning, stacklevel=2)
        return ()


def tuning_path(kernel: str, machine: Machine) -> Path:
    """Return where the choices of a kernel are kept for a machine."""
    return tuning_folder() / machine.folder / f"{kernel}.json"


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
