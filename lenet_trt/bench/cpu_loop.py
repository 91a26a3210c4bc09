"""The CPU loop that the write-up on convolution begins with: compiled by the system's C compiler, on one thread.

Source: ``plugins/conv5x5_bias/steps/00_cpu_loop.c``.
"""

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

from lenet_trt.bench.record import Case, Row
from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.cuda.timing import Plan
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel

BACKEND = "0: loops on one CPU thread"
KERNEL = "conv5x5_bias"
SOURCE = "steps/00_cpu_loop.c"
ENTRY = "conv5x5_bias_step00"
# As the write-up has it: 28x28 images, 50 filters of 5x5.
AXES = {"c": 1, "h": 28, "w": 28, "k": 50}
IMAGES = 10_000
# Timed as well, so that it shows whether the time grows as the images do; none is scaled from another.
FEWER_IMAGES = (100, 1000)
LEVEL = "-O2"
OTHER_LEVEL = "-O3"
# No image after the first and the last so many is compared with float64; that all were written is seen by poisoning.
CHECKED = 250
MOST_ERROR = 1e-6
# Seconds each: so many say enough of the spread, and nothing needs to warm up but memory and clock.
TIMINGS = 5
LEAST_TIMINGS = 3
_FLAGS = ("-std=c99", "-shared", "-fPIC")
_COMPILERS = ("cc", "gcc", "clang")
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the words that call it, and the first line of what it says of itself."""

    command: tuple[str, ...]
    version: str


def row(case: Case, plan: Plan) -> Row:
    """The loop on 10,000 images as a row of the ladder; why not, where it cannot be compiled.

    ``extra`` has the compiler and its flags, the times of fewer images, and what -O3 makes of it.
    """
    timings = max(LEAST_TIMINGS, min(TIMINGS, plan.rounds))
    try:
        with compiled(LEVEL) as loop:
            stats, extra = _timed(loop, IMAGES, timings)
            fewer = {str(images): _timed(loop, images, timings)[0] for images in FEWER_IMAGES}
        with compiled(OTHER_LEVEL) as loop:
            other, _ = _timed(loop, IMAGES, timings)
    except LenetTrtError as error:
        return Row(BACKEND, case, None, str(error), {"ours": True, "step": True})
    extra |= {
        "ours": True,
        "step": True,
        "fewer_images_us": {images: found.as_json()["median_us"] for images, found in fewer.items()},
        f"{OTHER_LEVEL}_us": other.as_json()["median_us"],
    }
    return Row(BACKEND, case, stats, None, extra)


def find_compiler() -> Compiler:
    """The C compiler: $CC, else cc, gcc or clang.

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
    return Compiler(command, told[0] if told else Path(program).name)


class Loop:
    """The compiled loop.

    Shapes: x [n, 1, 28, 28], w [50, 1, 5, 5], bias [50], y [n, 50, 24, 24]; all float32, dense.
    """

    def __init__(self, library: Path, compiler: str, command: str) -> None:
        self.compiler, self.command = compiler, command
        self._function = getattr(ctypes.CDLL(str(library)), ENTRY)
        pointer = ctypes.c_void_p
        self._function.argtypes = [pointer, pointer, pointer, ctypes.c_int, pointer]
        self._function.restype = None

    def __call__(self, x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], y: NDArray[Any]) -> None:
        """Compute y."""
        self._function(x.ctypes.data, w.ctypes.data, bias.ctypes.data, len(x), y.ctypes.data)


@contextmanager
def compiled(level: str) -> Iterator[Loop]:
    """The loop, compiled into a folder that is removed afterwards.

    Raises:
        LenetTrtError: there is no compiler, or it refuses the source.
    """
    compiler = find_compiler()
    source = kernel(KERNEL).source_dir / SOURCE
    macros = [f"-DAXIS_{name.upper()}={size}" for name, size in AXES.items()]
    with tempfile.TemporaryDirectory(prefix="lenet-trt-cc-") as folder:
        library = Path(folder) / "loop.so"
        _run([*compiler.command, level, *_FLAGS, *macros, str(source), "-o", str(library)])
        name = Path(compiler.command[0]).name
        yield Loop(library, compiler.version, " ".join([name, *compiler.command[1:], level, *_FLAGS]))


def _timed(loop: Loop, images: int, timings: int) -> tuple[Stats, dict[str, Any]]:
    """Check the loop on random images, then time it."""
    random = np.random.default_rng(0)
    declared = kernel(KERNEL)
    bound = declared.bind_axes({"n": images, **AXES}, declared.types_named("fp32"))
    x, w, bias = (random.standard_normal(shape, dtype=np.float32) for shape in bound.input_shapes)
    y = np.full(bound.output_shapes[0], np.nan, np.float32)
    loop(x, w, bias, y)
    error = _error(y, x, w, bias)
    times_us = []
    for _ in range(timings):
        begin = time.perf_counter_ns()
        loop(x, w, bias, y)
        times_us.append((time.perf_counter_ns() - begin) / 1e3)
    stats = summarize(times_us, warmups=1)
    rate = round(bound.flops / stats.median_us / 1e3, 3)
    return stats, {"error": error, "gflop_per_s": rate, "compiler": loop.compiler, "command": loop.command}


def _error(y: NDArray[Any], x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any]) -> float:
    """The relative error of the first and the last images.

    Raises:
        LenetTrtError: it is larger than rounding makes it, or something was not written.
    """
    chosen = np.unique(np.r_[: min(CHECKED, len(x)), max(len(x) - CHECKED, 0) : len(x)])
    double = (array.astype(np.float64) for array in (x[chosen], w, bias))
    wanted = np.asarray(kernel(KERNEL).reference(*double, activation="none"))
    error = relative_error(y[chosen], wanted)
    written = all(np.isfinite(part).all() for part in np.array_split(y, max(len(y) // CHECKED, 1)))
    if not written or not error <= MOST_ERROR:
        raise LenetTrtError(f"the compiled loop computes something else: relative error {error:.1e}")
    return error


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LenetTrtError(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise LenetTrtError(f"{Path(command[0]).name} refuses {SOURCE}: {said[0][:200]}")
    return done.stdout
