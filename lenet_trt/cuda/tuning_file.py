"""Read and write the file in which ``lenet-trt tune`` keeps the choices of a kernel for a GPU.

Another process sees the old file or the new one, never a part of it. Who reads it checks that it is whole and meant for
this GPU, driver, version of lenet-trt and declaration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from lenet_trt import __version__
from lenet_trt.cuda.compile import source_sha256
from lenet_trt.cuda.machine import Machine
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes, write_atomic
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.schema import Count, Duration, read_json

FORMAT = 1


@dataclass(frozen=True)
class Times:
    """Hold the median of a variant's timings and its 95% interval."""

    median_us: Duration
    low_us: Duration
    high_us: Duration


@dataclass(frozen=True)
class TimedCall:
    """Hold what was timed of a call: the declared variant, the tuned one, and the times of all that can run it."""

    types: str
    attributes: Mapping[str, AttributeValue]
    axes: Mapping[str, Count]
    declared: str
    tuned: str
    variants: Mapping[str, Times]

    @property
    def gain(self) -> float:
        """Return how many times as fast the tuned variant is as the declared one; nan where one was not timed."""
        declared, tuned = (self.variants.get(name) for name in (self.declared, self.tuned))
        return declared.median_us / tuned.median_us if declared and tuned and tuned.median_us else math.nan


@dataclass(frozen=True)
class Tuning:
    """Hold what ``lenet-trt tune`` found for a kernel; ``choices`` are only those that differ from the declared ones.

    ``declaration``: the hash of the declaration and the sources that were timed.
    """

    format: int
    lenet_trt: str
    machine: Machine
    kernel: str
    declaration: str
    date: str
    choices: tuple[TunedChoice, ...]
    calls: tuple[TimedCall, ...]


def read_tuning(path: Path, kernel: Kernel | None = None, machine: Machine | None = None) -> Tuning:
    """Read choices; with ``kernel`` and ``machine`` they have to be for these, as they are now.

    Raises:
        LenetTrtError: the file is damaged, or for something else; says what, and how to mend it.
    """
    name = path.stem if kernel is None else kernel.name
    again = f"`lenet-trt tune {name}` measures again"
    tuning = read_json(path, Tuning, wanted="the choices of lenet-trt tune", fix=again)
    if tuning.format != FORMAT:
        raise LenetTrtError(f"{path} has format {tuning.format}, and {FORMAT} is wanted: {again}")
    if kernel is not None and tuning.kernel != kernel.name:
        raise LenetTrtError(f"{path} is for the kernel {tuning.kernel}, not {name}: {again}")
    if machine is not None and (tuning.machine, tuning.lenet_trt) != (machine, __version__):
        raise LenetTrtError(
            f"{path} is for {tuning.machine} and lenet-trt {tuning.lenet_trt}; here is {machine} and lenet-trt "
            f"{__version__}: {again}"
        )
    if kernel is not None:
        check_declaration(tuning, kernel, str(path))
    return tuning


def check_declaration(tuning: Tuning, kernel: Kernel, name: str) -> None:
    """Refuse choices that were measured of other code; ``name`` says in the error where they are from.

    Raises:
        LenetTrtError: the kernel's declaration or sources changed since.
    """
    if tuning.declaration != declaration_sha256(kernel):
        raise LenetTrtError(
            f"{name} is for another version of the kernel {kernel.name}: `lenet-trt tune {kernel.name}` measures again"
        )


def write_tuning(tuning: Tuning) -> Path:
    """Keep the choices of a kernel in the cache, in place of older ones; return the path.

    Raises:
        LenetTrtError: the cache cannot be written.
    """
    path = tuning.machine.tuning_path(tuning.kernel)
    write_atomic(path, (json.dumps(asdict(tuning), indent=1) + "\n").encode())
    return path


@cache
def declaration_sha256(kernel: Kernel) -> str:
    """Hash everything of a kernel that a choice depends on: what it declares of its calls, and its sources."""
    declared = (
        *(kernel.name, kernel.version, kernel.axes, kernel.inputs, kernel.outputs, kernel.attributes, kernel.requires),
        *((types.name, sorted(types.variables.items())) for types in kernel.types),
        *kernel.variants,
        *(part.launch.maps for variant in kernel.variants for part in variant.parts if part.launch.maps),
    )
    return sha256_bytes(f"{declared!r} {source_sha256(kernel)}".encode())
