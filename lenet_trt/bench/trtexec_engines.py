"""Build, run and time engines by trtexec, as users of TensorRT do it by hand."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Shape
from lenet_trt.profile.trtexec import Trtexec, loading, network_alone, shapes_option

_SHOWN_LINES = 4
# Longer than any network of the suite; a matrix product of TensorRT 8.6.0 takes two minutes to build.
_LIMIT_S = 900.0


@dataclass(frozen=True)
class Engine:
    """Hold an engine on disk, and the plugin library that it needs, if any."""

    path: Path
    library: Path | None
    build_seconds: float


def built(
    tool: Trtexec,
    model: Path,
    engine: Path,
    flags: Sequence[str],
    shapes: Sequence[Mapping[str, Shape]],
    library: Path | None,
) -> Engine:
    """Build an engine; ``shapes`` are the smallest, the usual and the largest shape of each input, or none.

    Raises:
        LenetTrtError: trtexec made no engine; the message has trtexec's errors.
    """
    words = [f"--onnx={model}", f"--saveEngine={engine}", _building(tool), *flags]
    for option, chosen in zip(("minShapes", "optShapes", "maxShapes"), shapes, strict=False):
        words.append(f"--{option}={shapes_option(chosen)}")
    begin = time.monotonic()
    engine.unlink(missing_ok=True)
    # The exit status is not used: trtexec 8.6 may crash at its end, after it has saved the engine.
    said = _said(tool, words, library)
    if not engine.is_file() or not engine.stat().st_size:
        raise LenetTrtError(f"{tool} built no engine: {_errors(said)}")
    return Engine(engine, library, round(time.monotonic() - begin, 1))


def timed(tool: Trtexec, engine: Engine, shapes: Mapping[str, Shape], iterations: int, folder: Path) -> list[float]:
    """Run an engine and return each inference's time on the GPU in microseconds, after a warm-up of 0.2 s.

    Raises:
        LenetTrtError: the engine does not run; the message has trtexec's errors.
    """
    exported = folder / "times.json"
    words = [*_running(tool, engine, shapes), "--warmUp=200", "--duration=0", f"--iterations={iterations}"]
    entries = json.loads(_exported(tool, [*words, f"--exportTimes={exported}"], engine.library, exported))
    return [1e3 * float(entry["computeMs"]) for entry in entries]


def output(
    tool: Trtexec, engine: Engine, inputs: Mapping[str, NDArray[np.generic]], folder: Path
) -> NDArray[np.float64]:
    """Run an engine on these inputs and return its one output.

    Raises:
        LenetTrtError: the engine does not run, or has no output or several.
    """
    files = []
    for name, array in inputs.items():
        array.tofile(folder / f"{name}.bin")
        files.append(f"{name}:{folder / f'{name}.bin'}")
    exported = folder / "output.json"
    shapes = {name: array.shape for name, array in inputs.items()}
    words = [*_running(tool, engine, shapes), f"--loadInputs={','.join(files)}", "--warmUp=0", "--duration=0"]
    words += ["--iterations=1", f"--exportOutput={exported}"]
    found = json.loads(_exported(tool, words, engine.library, exported))
    if len(found) != 1:
        raise LenetTrtError(f"{engine.path.name} has {len(found)} outputs; wanted one")
    sizes = [int(size) for size in found[0]["dimensions"].split("x")]
    return np.array(found[0]["values"], np.float64).reshape(sizes)


def _building(tool: Trtexec) -> str:
    """Return the option that builds without running; TensorRT 8.6 has it under an older name."""
    return "--skipInference" if "skipInference" in tool.options else "--buildOnly"


def _running(tool: Trtexec, engine: Engine, shapes: Mapping[str, Shape]) -> list[str]:
    flags = [f"loadEngine={engine.path}", *network_alone(tool)]
    if shapes:
        flags.append(f"shapes={shapes_option(shapes)}")
    return [f"--{flag}" for flag in flags]


def _exported(tool: Trtexec, words: Sequence[str], library: Path | None, path: Path) -> str:
    path.unlink(missing_ok=True)
    said = _said(tool, words, library)
    if not path.is_file():
        raise LenetTrtError(f"{tool} did not run the engine: {_errors(said)}")
    return path.read_text(encoding="utf-8")


def _said(tool: Trtexec, words: Sequence[str], library: Path | None) -> str:
    plugins = [f"--{flag}" for flag in loading(tool, library)]
    try:
        done = subprocess.run(
            [tool.path, *words, *plugins],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LenetTrtError(f"{tool.path} does not run: {error}") from error
    return done.stdout


def _errors(said: str) -> str:
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    return "; ".join(([line for line in lines if "[E]" in line] or lines)[-_SHOWN_LINES:]) or "it said nothing"
