"""Compare engines of one network: their times in turns, and how far their results are from the model's."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lenet_trt.cuda.statistics import Stats, differ, summarize
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import check_can_read
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.read import load_model
from lenet_trt.optimize.gate import onnx_runtime_outputs, worst_error
from lenet_trt.profile.trtexec import Run, Trtexec, engine_outputs, engine_times, find_trtexec, runnable
from lenet_trt.runtimes.inputs import Sizes, arrays_for, shapes_of
from lenet_trt.tensorrt.find_library import library_for_build
from lenet_trt.tensorrt.sidecar import sidecar_path
from lenet_trt.tensorrt.vouch import vouched


@dataclass(frozen=True)
class ComparisonRequest:
    """Say what to compare, and how.

    ``model``: the network's ONNX file, with which results are compared. ``sizes``: those of its open axes; without a
    model only whole shapes of inputs.
    """

    engines: Sequence[Path]
    model: Path | None = None
    sizes: Sizes = field(default_factory=Sizes)
    turns: int = 3
    iterations: int = 200
    library: Path | None = None
    trust: bool = False
    trtexec: str | None = None


@dataclass(frozen=True)
class ComparedEngine:
    """Hold the times of an engine, and how many times as fast as the first one it is.

    ``verdict``: "faster" or "slower" than the first, beyond the noise of this run, or "same"; the first has none.
    ``error``: the largest distance of an output from ONNX Runtime's result for the model, relative, in norm; None
    without a model.
    """

    path: Path
    stats: Stats
    times_faster: float
    verdict: str
    error: float | None


def compare_engines(request: ComparisonRequest) -> list[ComparedEngine]:
    """Time the engines in turns by trtexec, and compare their results with the model's.

    Raises:
        LenetTrtError: a file or trtexec is not there, or an engine does not run in it, or has not the model's outputs.
    """
    for engine in request.engines:
        check_can_read(engine, "an engine")
    if request.library is not None:
        library_for_build(request.library)  # an error where it is not there
    tool = find_trtexec(request.trtexec)
    with tempfile.TemporaryDirectory(prefix="lenet-trt-compare-") as scratch:
        folder = Path(scratch)
        shapes, inputs, wanted = dict(request.sizes.shapes), dict[str, Path](), None
        if request.model is not None:
            shapes, inputs, wanted = _inputs_and_results(request.model, request.sizes, folder)
        runs = [
            _run_of(engine, request, shapes, inputs, folder / f"engine{at}", tool)
            for at, engine in enumerate(request.engines)
        ]
        times: list[list[float]] = [[] for _ in runs]
        for _ in range(request.turns):
            for run, of_engine in zip(runs, times, strict=True):
                of_engine += engine_times(run, tool)
        errors = [None if wanted is None else _error(run, tool, wanted) for run in runs]
    stats = [summarize(of_engine).without_samples() for of_engine in times]
    return [
        ComparedEngine(path, own, stats[0].median_us / own.median_us, _verdict(own, stats[0]) if at else "", error)
        for at, (path, own, error) in enumerate(zip(request.engines, stats, errors, strict=True))
    ]


def _run_of(
    engine: Path,
    request: ComparisonRequest,
    shapes: Mapping[str, Shape],
    inputs: Mapping[str, Path],
    exports: Path,
    tool: Trtexec,
) -> Run:
    run = Run(engine, shapes, request.iterations, False, request.trust, exports, request.library, inputs)
    # One library is given for all engines: those that need none run without it.
    if request.library is not None and sidecar_path(engine).is_file() and vouched(engine).library is None:
        run = replace(run, library=None)
    return runnable(run, tool)


def _inputs_and_results(
    path: Path, sizes: Sizes, folder: Path
) -> tuple[dict[str, Shape], dict[str, Path], dict[str, NDArray[Any]]]:
    """Return the shapes of open inputs, a file with numbers for each input, and what ONNX Runtime makes of these."""
    model = load_model(path)
    given, gives = ports(model)
    shapes, _ = shapes_of(given, sizes)
    arrays = arrays_for(given, shapes)
    files: dict[str, Path] = {}
    for at, (port, array) in enumerate(zip(given, arrays, strict=True)):
        array.tofile(files.setdefault(port.name, folder / f"{at}.bin"))
    results = onnx_runtime_outputs(model, arrays)
    is_open = {port.name: not all(isinstance(axis, int) for axis in port.axes) for port in given}
    shapes = {name: shape for name, shape in shapes.items() if is_open[name]}
    return shapes, files, {port.name: result for port, result in zip(gives, results, strict=True)}


def _error(run: Run, tool: Trtexec, wanted: Mapping[str, NDArray[Any]]) -> float:
    found = engine_outputs(run, tool)
    if found.keys() != wanted.keys():
        raise LenetTrtError(
            f"{run.engine} has the outputs {', '.join(sorted(found))}, and the model {', '.join(sorted(wanted))}: "
            "give the ONNX file from which the engine was built"
        )
    return worst_error([found[name].reshape(result.shape) for name, result in wanted.items()], list(wanted.values()))


def _verdict(stats: Stats, first: Stats) -> str:
    if not differ(stats, first):
        return "same"
    return "faster" if stats.median_us < first.median_us else "slower"
