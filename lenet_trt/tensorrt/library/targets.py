"""The GPUs that kernels are embedded for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lenet_trt.cuda.compile import architectures, nvrtc_version
from lenet_trt.cuda.gpus import first_gpu, gpus, sm_number, sm_text
from lenet_trt.cuda.nvrtc import compiling_by
from lenet_trt.errors import UsageError
from lenet_trt.kernel.variants import OLDEST_SM

# What it compiles, drivers from 525 on load; what CUDA 13's compiles needs 580.
OLDER_NVRTC = "12"


def targets_for(sms: Sequence[str]) -> list[str]:
    """Turn compute capabilities ("8.6", or "current") into targets ("sm_86"); none means the GPU here.

    Raises:
        UsageError: one that no kernel is compiled for, or there is no GPU to take it from.
    """
    numbers = {_number(sm) for sm in sms or ["current"]}
    return [f"sm_{number}" for number in sorted(numbers)]


@contextmanager
def compiling_for(targets: Sequence[str], nvrtc: str | None = None) -> Iterator[None]:
    """Compile by the NVRTC of a CUDA major version.

    None: the usual one, or NVRTC 12 where the targets include the GPU here and its driver is older than the usual one.

    Raises:
        LenetTrtError: the driver here needs NVRTC 12, which is not here; or the one that was asked for is not.
    """
    gpu, known = first_gpu(), gpus().driver_cuda
    if nvrtc is None and known is not None and gpu is not None and f"sm_{gpu.sm}" in targets:
        usual = nvrtc_version()
        if int(known.split(".")[0]) < int(usual.split(".")[0]):
            nvrtc = OLDER_NVRTC
    with compiling_by(nvrtc):
        yield


def _number(sm: str) -> int:
    number = sm_number(sm)
    if sm == "current":
        gpu = first_gpu()
        if gpu is None:
            raise UsageError("there is no GPU here: name those that will run it, such as --sm 8.6")
        number = gpu.sm
    known = [each for each in architectures() if each >= OLDEST_SM]
    if number not in known:
        names = ", ".join(map(sm_text, known))
        raise UsageError(f"--sm {sm}: kernels are compiled for {names}, or 'current' for the GPU here")
    return number
