"""Find this machine's CUDA GPUs through the driver; nothing else of CUDA is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from lenet_trt.cuda.nvrtc import INSTALL
from lenet_trt.errors import UsageError


@dataclass(frozen=True)
class Gpu:
    """Hold one CUDA device: ``sm`` is its compute capability as a number, 86 for 8.6."""

    index: int
    name: str
    sm: int
    memory_bytes: int

    @property
    def capability(self) -> str:
        """Return the compute capability as people write it, "8.6"."""
        return sm_text(self.sm)


@dataclass(frozen=True)
class Gpus:
    """Hold the devices of this machine, or the problem; ``driver_cuda`` is the newest CUDA of the driver."""

    devices: tuple[Gpu, ...]
    driver_cuda: str | None
    problem: str | None


@cache
def gpus() -> Gpus:
    """Ask the CUDA driver for the devices; a machine without driver or GPU gives an empty answer."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return Gpus((), None, f"cuda-bindings cannot be imported ({error}): {INSTALL}")
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # cuda-bindings looks for libcuda.so.1 in its first call
        return Gpus((), None, "no NVIDIA driver (libcuda.so.1 is not found)")
    if status != driver.CUresult.CUDA_SUCCESS:
        return Gpus((), None, f"the NVIDIA driver answers {status.name}")
    version = _ask(driver.cuDriverGetVersion())
    devices = tuple(_device(driver, index) for index in range(_ask(driver.cuDeviceGetCount())))
    driver_cuda = f"{version // 1000}.{version % 1000 // 10}"
    return Gpus(devices, driver_cuda, None if devices else "the driver sees no GPU")


def sm_text(sm: int) -> str:
    """Write a compute capability as people do: "8.6" for 86."""
    return f"{sm // 10}.{sm % 10}"


def sm_number(text: str) -> int | None:
    """Read a value of ``--sm`` as people write it: "8.6", "86" or "sm_86"; return None for other text.

    Raises:
        UsageError: there are several in it.
    """
    if "," in text:
        again = " ".join(f"--sm {part.strip()}" for part in text.split(",") if part.strip())
        raise UsageError(f"--sm {text}: wanted one compute capability; for several repeat it: {again}")
    found = re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)", text)
    return int(found[1] + found[2]) if found else None


def first_gpu() -> Gpu | None:
    """Return device 0, the one that is used unless CUDA_VISIBLE_DEVICES says otherwise, or None."""
    return next(iter(gpus().devices), None)


def _device(driver: Any, index: int) -> Gpu:
    attribute = driver.CUdevice_attribute
    device = _ask(driver.cuDeviceGet(index))
    major, minor = (
        _ask(driver.cuDeviceGetAttribute(which, device))
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    name = _ask(driver.cuDeviceGetName(256, device)).split(b"\0")[0].decode()
    memory = _ask(driver.cuDeviceTotalMem(device))
    return Gpu(index, name, 10 * int(major) + int(minor), int(memory))


def _ask(answer: tuple[Any, Any]) -> Any:
    """Unpack what cuda.bindings returns, (status, value)."""
    status, value = answer
    if int(status) != 0:
        raise RuntimeError(f"the CUDA driver answered {status.name}")
    return value
