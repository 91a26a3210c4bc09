"""Time step 0 of a kernel, where it has one: a loop in C on one CPU thread, compiled by the system's compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.record import Row, RowCase
from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.cuda.timing import TimingPlan
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.steps import CpuStep
from lenet_trt.kernel.tensors import Types

LEVEL = "-O2"
OTHER_LEVEL = "-O3"
# This many of the first and of the last images are compared with float64; NaN shows images that were not written.
CHECKED = 250
MOST_ERROR = 1e-6
# A timing takes seconds: five show the spread, and only memory and clock need to warm up.
TIMINGS = 5
LEAST_TIMINGS = 3
_FLAGS = ("-std=c99", "-shared", "-fPIC")
_COMPILERS = ("cc", "gcc", "clang")
_TIMEOUT_S = 120


@dataclass(frozen=True)
class CCompiler:
    """Hold a C compiler: the words that call it, and the first line of its --version."""

    command: tuple[str, ...]
    version: str


def row(kernel: Kernel, step: CpuStep, case: RowCase, plan: TimingPlan) -> Row:
    """Time the loop, as a row of the ladder; where it cannot be compiled, the row says why.

    ``extra`` has the compiler and its flags, the times of fewer images, and the time with -O3.
    """
    timings = max(LEAST_TIMINGS, min(TIMINGS, plan.rounds))
    first = next(iter(step.axes))
    calls = {images: kernel.bind_axes({**step.axes, first: images}, _fp32(kernel)) for images in step.fewer}
    bound = kernel.bind_axes(step.axes, _fp32(kernel))
    try:
        with compiled_loop(kernel, step, LEVEL) as loop:
            stats, extra = _timed(loop, bound, timings)
            fewer = {str(images): _timed(loop, call, timings)[0] for images, call in calls.items()}
        with compiled_loop(kernel, step, OTHER_LEVEL) as loop:
            other, _ = _timed(loop, bound, timings)
    except LenetTrtError as error:
        return Row(step.name, case, None, str(error), {"ours": True, "step": True})
    extra |= {
        "ours": True,
        "step": True,
        "fewer_images_us": {images: found.as_json()["median_us"] for images, found in fewer.items()},
        f"{OTHER_LEVEL}_us": other.as_json()["median_us"],
    }
    return Row(step.name, case, stats, None, extra)


def find_compiler() -> CCompiler:
    """Find the C compiler: $CC, else cc, gcc or clang.

    Raises:
        LenetTrtError: there is none, or it does not run.
    """
    chosen = shlex.split(os.environ.get("CC", ""))
    names = chosen[:1] or list(_COMPILERS)
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise LenetTrtError(f"there is no C compiler ({', '.join(names)}): install one, or name it in $CC")
    command = (program, *chosen[1:])
    told = _run([*command, "--version"]).splitlines()
    return CCompiler(command, told[0] if told else Path(program).name)


class Loop:
    """Call the compiled loop: its function takes dense float32 arrays and the number of images."""

    def __init__(self, library: Path, entry: str, compiler: str, command: str) -> None:
        self.compiler, self.command = compiler, command
        self._function = getattr(ctypes.CDLL(str(library)), entry)
        self._function.restype = None

    def __call__(self, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
        """Compute the output."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, output)]
        self._function(*pointers[:-1], ctypes.c_int(len(inputs[0])), pointers[-1])


@contextmanager
def compiled_loop(kernel: Kernel, step: CpuStep, level: str) -> Iterator[Loop]:
    """Compile the loop into a folder that is removed afterwards.

    Raises:
        LenetTrtError: there is no compiler, or it refuses the source.
    """
    compiler = find_compiler()
    source = kernel.source_dir / "steps" / step.source
    macros = [f"-DAXIS_{name.upper()}={size}" for name, size in step.axes.items() if name in kernel.static_axes]
    with tempfile.TemporaryDirectory(prefix="lenet-trt-cc-") as folder:
        library = Path(folder) / "loop.so"
        _run([*compiler.command, level, *_FLAGS, *macros, str(source), "-o", str(library)], source.name)
        name = Path(compiler.command[0]).name
        yield Loop(library, step.entry, compiler.version, " ".join([name, *compiler.command[1:], level, *_FLAGS]))


def _fp32(kernel: Kernel) -> Types:
    return next(types for types in kernel.types if set(types.variables.values()) == {"float32"})


def _timed(loop: Loop, bound: Bound, timings: int) -> tuple[Stats, dict[str, Any]]:
    """Check the loop on random images, then time it."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape, dtype=np.float32) for shape in bound.input_shapes]
    output = np.full(bound.output_shapes[0], np.nan, np.float32)
    loop(inputs, output)
    error = _error(bound, inputs, output)
    times_us = []
    for _ in range(timings):
        begin = time.perf_counter_ns()
        loop(inputs, output)
        times_us.append((time.perf_counter_ns() - begin) / 1e3)
    stats = summarize(times_us, warmups=1)
    rate = round(bound.flops / stats.median_us / 1e3, 3)
    return stats, {"error": error, "gflop_per_s": rate, "compiler": loop.compiler, "command": loop.command}


def _error(bound: Bound, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> float:
    """Return the relative error of the first and the last images.

    Raises:
        LenetTrtError: it is larger than rounding makes it, or something was not written.
    """
    x, *weights = inputs
    chosen = np.unique(np.r_[: min(CHECKED, len(x)), max(len(x) - CHECKED, 0) : len(x)])
    double = (array.astype(np.float64) for array in (x[chosen], *weights))
    wanted = np.asarray(bound.kernel.reference(*double, **bound.attributes))
    error = relative_error(output[chosen], wanted)
    written = all(np.isfinite(part).all() for part in np.array_split(output, max(len(output) // CHECKED, 1)))
    if not written or not error <= MOST_ERROR:
        raise LenetTrtError(f"the compiled loop computes something else: relative error {error:.1e}")
    return error


def _run(command: Sequence[str], source: str = "its options") -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LenetTrtError(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise LenetTrtError(f"{Path(command[0]).name} refuses {source}: {said[0][:200]}")
    return done.stdout
