"""Run trtexec and tensorrt_rtx: find their version, make each measure the same, and read their exports.

By default TensorRT 8 and 10 copy inputs and results, wait by sleeping, launch kernels one by one, and profile in the
timed run; TensorRT 11 and TensorRT-RTX do none of this. The flags here make all of them measure the network alone.
Source: samples/common/sampleOptions.cpp of NVIDIA/TensorRT; the migration guide from TensorRT 10 to 11 for trtexec.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.environment import environment
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.tensorrt.find_library import library_for_engine
from lenet_trt.tensorrt.library_file import library_content
from lenet_trt.tensorrt.routes import recorded_route
from lenet_trt.tensorrt.sidecar import Sidecar
from lenet_trt.tensorrt.vouch import vouched
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.readers.trtexec_exports import read_outputs, read_trtexec
from lenet_trt.trace.timeline import Timeline

PROGRAMS = ("trtexec", "tensorrt_rtx")
_PLACES = ("/usr/src/tensorrt/bin", "/usr/local/tensorrt/bin", "/opt/tensorrt/bin")
_NEEDED = ("loadEngine", "iterations", "duration", "exportProfile", "exportLayerInfo", "exportTimes")
# These options are defaults since version 11.
_ONCE_ASKED_FOR = ("useSpinWait", "useCudaGraph", "separateProfileRun")
# The option from 8.6 on, and the option before.
_LIBRARY_OPTIONS = ("staticPlugins", "plugins")
_ALWAYS = ("profilingVerbosity=detailed",)
_NEW_DEFAULTS = 11
_WAIT_S = 60.0
_SHOWN_LINES = 6


@dataclass(frozen=True)
class Trtexec:
    """Hold a program that runs; ``options`` are the options in its help, without the dashes."""

    path: str
    rtx: bool
    version: tuple[int, int, int]
    options: frozenset[str]

    @property
    def new_defaults(self) -> bool:
        """Say whether it measures the network alone by default."""
        return self.rtx or self.version[0] >= _NEW_DEFAULTS

    def __str__(self) -> str:
        return f"{'tensorrt_rtx' if self.rtx else 'trtexec'} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True)
class Run:
    """Describe an engine to run; its exports go into the folder ``exports``.

    ``library``: a plugin library to load. ``inputs``: a file with the bytes of each input (none: trtexec draws numbers,
    which are no valid indexes).
    """

    engine: Path
    shapes: Mapping[str, Shape]
    iterations: int
    transfers: bool
    trust: bool
    exports: Path
    library: Path | None = None
    inputs: Mapping[str, Path] = field(default_factory=dict)


def find_trtexec(chosen: str | None = None) -> Trtexec:
    """Find the program at a path, or the first one on the PATH and in the usual places.

    Raises:
        LenetTrtError: no such program is found, or it is not trtexec.
    """
    path = chosen and shutil.which(chosen)
    if chosen and not path:
        raise UsageError(f"--trtexec-path {chosen}: there is no such program, or it may not be run")
    path = path or next(filter(None, (shutil.which(name) for name in PROGRAMS)), None)
    path = path or next(filter(None, (shutil.which(name, path=place) for place in _PLACES for name in PROGRAMS)), None)
    if path is None:
        raise LenetTrtError(
            f"neither {' nor '.join(PROGRAMS)} is on the PATH: they come with TensorRT's archive and packages (not "
            "with pip); give the path of the program with --trtexec-path"
        )
    try:
        done = subprocess.run([path, "--help"], capture_output=True, text=True, errors="replace", timeout=_WAIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise LenetTrtError(f"{path} does not start: {error}") from error
    said = done.stdout + done.stderr
    options = frozenset(re.findall(r"--([A-Za-z]\w+)", said))
    rtx = "rtx" in Path(path).name.lower() or bool(re.search(r"TensorRT[-_ ]RTX", said))
    version = _version(said)
    if version is None or not options:
        raise LenetTrtError(
            f"{path} --help does not say which TensorRT it is (exit {done.returncode}; it says: "
            f"{_told(said) or 'nothing'}): is it trtexec, and are TensorRT's libraries on LD_LIBRARY_PATH?"
        )
    if missing := [option for option in _NEEDED if option not in options]:
        raise LenetTrtError(
            f"{path} is of TensorRT {'.'.join(map(str, version))} and has no --{', --'.join(missing)}: "
            "wanted 8.4 or newer"
        )
    return Trtexec(path, rtx, version, options)


def _version(said: str) -> tuple[int, int, int] | None:
    """Read the version in ``[TensorRT v8601]`` or ``[TensorRT v101300]``; the old form has one digit per number."""
    match = re.search(r"TensorRT\S* v(?:(\d+)\.(\d+)\.(\d+)|(\d{4,6})\b)", said)
    if match is None:
        return None
    if match[1]:
        return int(match[1]), int(match[2]), int(match[3])
    digits = match[4]
    if len(digits) == 4:  # 8.6.1
        return int(digits[0]), int(digits[1]), int(digits[2:])
    return int(digits[:-4]), int(digits[-4:-2]), int(digits[-2:])


def trtexec_command(tool: Trtexec, run: Run) -> list[str]:
    """Return the command line that runs an engine and writes its three exports."""
    flags = [flag for flag in _ALWAYS if flag.partition("=")[0] in tool.options]
    return _command(tool, run, *flags, *(f"{option}={path}" for option, path in export_paths(run.exports).items()))


def _command(tool: Trtexec, run: Run, *more: str) -> list[str]:
    flags = [f"loadEngine={run.engine}", f"iterations={run.iterations}", "duration=0"]
    if run.shapes:
        flags.append(f"shapes={shapes_option(run.shapes)}")
    if run.inputs:
        flags.append(f"loadInputs={','.join(f'{name}:{path}' for name, path in run.inputs.items())}")
    flags += network_alone(tool, transfers=run.transfers)
    flags += loading(tool, run.library)
    return [tool.path, *(f"--{flag}" for flag in (*flags, *more))]


def loading(tool: Trtexec, library: Path | None) -> list[str]:
    """Return the flag that loads a plugin library, if there is one.

    Raises:
        LenetTrtError: it is no plugin library, or not one for this program's TensorRT.
    """
    if library is None:
        return []
    library_content(library, "rtx" if tool.rtx else "tensorrt", ".".join(map(str, tool.version)), str(tool))
    option = next(name for name in _LIBRARY_OPTIONS if name in tool.options)
    return [f"{option}={library.resolve()}"]


def shapes_option(shapes: Mapping[str, Shape]) -> str:
    """Write shapes as trtexec's options take them: ``images:32x1x28x28``."""
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())


def network_alone(tool: Trtexec, *, transfers: bool = False) -> list[str]:
    """Return the flags that make every version time the network alone: CUDA graph, spinning wait, no copies."""
    if tool.new_defaults:
        return ["includeDataTransfers"] if transfers else []
    asked = [flag for flag in _ONCE_ASKED_FOR if flag in tool.options]
    return asked if transfers else [*asked, "noDataTransfers"]


def export_paths(folder: Path) -> dict[str, Path]:
    """Return the file in the folder for each export, by option."""
    names = {"exportProfile": "profile.json", "exportLayerInfo": "layers.json", "exportTimes": "times.json"}
    return {option: folder / name for option, name in names.items()}


def traced_engine(run: Run, tool: Trtexec) -> Timeline:
    """Run an engine and read its exports; the exports stay in their folder.

    A run that a signal ends is done once more: trtexec 8.6.0 aborts now and then, with plugins and without.

    Raises:
        LenetTrtError: no sidecar matches the engine, it is for another program, or the run failed.
    """
    run = runnable(run, tool)
    paths = export_paths(run.exports).values()
    line = trtexec_command(tool, run)
    notes = _run(line, tool, list(paths))
    found = timeline_from(*paths)
    return replace(
        found,
        source=str(tool),
        notes=(*found.notes, *notes),
        environment={**found.environment, **environment(), "trtexec": str(tool), "trtexec_command": line},
    )


def engine_times(run: Run, tool: Trtexec) -> list[float]:
    """Run an engine that ``runnable`` has seen, and return the microseconds of each inference on the GPU.

    Raises:
        LenetTrtError: the run failed.
    """
    path = export_paths(run.exports)["exportTimes"]
    _run(_command(tool, run, f"exportTimes={path}"), tool, [path])
    return exported_times(run)


def exported_times(run: Run) -> list[float]:
    """Return the microseconds of each inference on the GPU, of a run that has exported them.

    Raises:
        LenetTrtError: the file has no times.
    """
    path = export_paths(run.exports)["exportTimes"]
    exports = read_trtexec(path.read_text(encoding="utf-8"), path.name)
    if exports is None:
        raise LenetTrtError(f"{path} has no times: run the engine again")
    return [time.compute_ms * 1e3 for time in exports[1].times]


def engine_outputs(run: Run, tool: Trtexec) -> dict[str, NDArray[np.float64]]:
    """Run an engine that ``runnable`` has seen once, and return its outputs by name.

    Raises:
        LenetTrtError: the run failed.
    """
    path = run.exports / "outputs.json"
    _run(_command(tool, replace(run, iterations=1), "warmUp=0", f"exportOutput={path}"), tool, [path])
    return read_outputs(path.read_text(encoding="utf-8"), path.name)


def _run(line: list[str], tool: Trtexec, exports: Sequence[Path]) -> list[str]:
    """Run the program, which has to write these files, and return what there is to note."""
    for path in exports:
        path.parent.mkdir(parents=True, exist_ok=True)
    done, notes = _attempt(line, exports), []
    if done.returncode < 0:
        notes.append(f"a first run of {tool} was {_ending(done.returncode)}")
        done = _attempt(line, exports)
    missing = [path for path in exports if not path.is_file()]
    if done.returncode != 0 or missing:
        wanted = f"; it left no {missing[0].name}" if missing and done.returncode == 0 else ""
        raise LenetTrtError(
            f"{tool} failed ({_ending(done.returncode)}{wanted}): {_told(done.stdout) or 'it said nothing'}"
        )
    return notes


def _attempt(line: list[str], exports: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    for path in exports:
        path.unlink(missing_ok=True)
    try:
        return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        raise LenetTrtError(f"{line[0]} does not start: {error}") from error


def _ending(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"


def runnable(run: Run, tool: Trtexec) -> Run:
    """Return the run with the plugin library that its engine needs. An engine can contain code, and trtexec runs it.

    Raises:
        LenetTrtError: no sidecar matches the engine, or this program cannot run it.
    """
    try:
        sidecar: Sidecar = vouched(run.engine)
    except LenetTrtError as error:
        if run.trust:
            return run
        raise LenetTrtError(f"{error}; an engine can contain code, so it is run only with --trust") from error
    flavor = sidecar.inputs["flavor"]
    if (flavor == "rtx") != tool.rtx:
        raise LenetTrtError(
            f"{run.engine} was built by {flavor}, and {tool.path} is {tool}: give the other program with --trtexec-path"
        )
    for entry in sidecar.plugins:
        if (why := recorded_route(entry["route"]).program_obstacle()) is not None:
            raise LenetTrtError(f"{run.engine} does not run in {tool}: {why} ({entry['kernel']}); leave --trtexec out")
    return replace(run, library=library_for_engine(run.engine, sidecar, run.library))


def _told(said: str) -> str:
    """Return the lines that matter: errors, or the last lines."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "[E]" in line]
    return "; ".join((errors or lines)[-_SHOWN_LINES:])
