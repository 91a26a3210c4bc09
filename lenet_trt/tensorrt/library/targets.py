"""The GPUs that kernels are embedded for."""

from __future__ import annotations

from collections.abc import Sequence

from lenet_trt.cuda.compile import architectures
from lenet_trt.cuda.gpus import first_gpu, sm_number, sm_text
from lenet_trt.errors import UsageError
from lenet_trt.kernel.declaration import OLDEST_SM


def targets_for(sms: Sequence[str]) -> list[str]:
    """Turn compute capabilities ("8.6", or "current") into targets ("sm_86"); none means the GPU here.

    Raises:
        UsageError: one that no kernel is compiled for, or there is no GPU to take it from.
    """
    numbers = {_number(sm) for sm in sms or ["current"]}
    return [f"sm_{number}" for number in sorted(numbers)]


def _number(sm: str) -> int:
    number = sm_number(sm)
    if sm == "current":
        gpu = first_gpu()
        if gpu is None:
            raise UsageError("there is no GPU here to embed kernels for: name those that will run it, such as --sm 8.6")
        number = gpu.sm
    known = [each for each in architectures() if each >= OLDEST_SM]
    if number not in known:
        names = ", ".join(map(sm_text, known))
        raise UsageError(f"--sm {sm}: kernels are compiled for {names}, or 'current' for the GPU here")
    return number
