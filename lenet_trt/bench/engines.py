"""Measure the suite ``engines``: TensorRT's own layers against our plugins, in engines that trtexec times in turns."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.bench.best_peers import best_peers_summary
from lenet_trt.bench.engine_tool import NOT_RUN, Arrays, Engine, EngineModel, EngineTool, Outputs, outputs_of
from lenet_trt.bench.engine_workloads import (
    BACKENDS,
    EXTERNAL,
    ITERATIONS,
    OURS,
    SLOW_ITERATIONS,
    TF32,
    THEIRS,
    EngineWorkload,
    engine_workloads,
)
from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.resume import check_resumed, kept
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.bench.trtexec_engines import trtexec_here
from lenet_trt.cuda.gpus import Gpu, first_gpu, gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.draw.chart import Chart, Series
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.kernel.examples import relative_error

TAKES_ONLY = True
ROUNDS, QUICK_ROUNDS = 3, 1
# The largest relative error against float64, in norm, of a right result.
LIMITS = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 1e-2, "int8": 3e-2}
# TensorRT's other ways differ little from these; the table has them.
_DRAWN = (THEIRS, TF32, OURS)


def measure(options: SuiteOptions) -> Record:
    """Build all engines by trtexec, compare their results with float64, and time them in turns."""
    with tempfile.TemporaryDirectory(prefix="lenet-trt-engines-") as folder:
        with recording("engines", options) as found:
            try:
                gpu = _gpu()
                tool, library = trtexec_here(options, gpu, Path(folder))
                found.details |= {"library_sha256": sha256_file(library), "trtexec": str(tool)}
            except LenetTrtError as problem:
                for backend in (THEIRS, OURS):
                    found.cannot(backend, {"workload": "any"}, problem)
                return found.finish()
            check_resumed(options.resume, found, "engines", gpu.name)
            measure_engines(tool, options, Path(folder), found)
        return found.finish()


def measure_engines(tool: EngineTool, options: SuiteOptions, folder: Path, found: Recording) -> None:
    """Build, check and time all workloads with a tool, and add their rows; engines are written into the folder."""
    found.details["trtexec"] = str(tool)
    found.details["backends"] = {
        name: {
            "tf32": each.tf32,
            "optimization_level": each.optimization_level,
            "external_tactics": name == EXTERNAL,
        }
        for name, each in BACKENDS.items()
    }
    found.details["flags"] = list(options.trtexec_flags)
    found.notes = _notes(tool)
    for workload in engine_workloads(options):
        if found.wants(workload.name):
            _Bench(tool, folder, options, found).run(workload)


def _gpu() -> Gpu:
    gpu = first_gpu()
    if gpu is None:
        raise LenetTrtError(f"engines are timed on a GPU, and there is none here: {gpus().problem}")
    return gpu


@dataclass(frozen=True)
class _Bench:
    """Build and time the engines of one workload."""

    tool: EngineTool
    folder: Path
    options: SuiteOptions
    found: Recording

    def run(self, workload: EngineWorkload) -> None:
        """Add a row for every backend and batch; what the resumed record has is not measured again."""
        engines: dict[tuple[str, int], Engine] = {}
        facts: dict[tuple[str, int], dict[str, Any]] = {}
        wanted: dict[int, tuple[Arrays, Outputs]] = {}
        for backend, batches in workload.backends.items():
            for batch in batches:
                key = (backend, batch)
                if old := kept(self.options.resume, _case(workload, batch), backend):
                    self.found.rows += old
                    continue
                try:
                    engines[key] = self._engine(workload, backend, batch, engines)
                    facts[key] = {"build_seconds": engines[key].build_seconds, "ours": backend == OURS}
                    if self.tool.runs:
                        size = workload.checked(batch)
                        if size not in wanted:
                            wanted[size] = (inputs := workload.draw(size)), workload.wanted(inputs)
                        inputs, right = wanted[size]
                        facts[key] |= self._errors(engines[key], inputs, workload.model, right)
                        precision = workload.model.precision or ("tf32" if BACKENDS[backend].tf32 else "fp32")
                        facts[key]["right"] = facts[key]["error"] <= LIMITS[precision]
                except LenetTrtError as problem:
                    engine = engines.pop(key, None)
                    built = {} if engine is None else {"build_seconds": engine.build_seconds}
                    self.found.cannot(backend, _case(workload, batch), problem, ours=backend == OURS, **built)
        times = self._times(workload, engines) if self.tool.runs and engines else {}
        for (backend, batch), engine in engines.items():
            case, extra = _case(workload, batch), facts[backend, batch]
            if not self.tool.runs:
                extra["engine_bytes"] = engine.path.stat().st_size
                self.found.cannot(backend, case, NOT_RUN, **extra)
            elif isinstance(measured := times[backend, batch], LenetTrtError):
                self.found.cannot(backend, case, measured, **extra)
            else:
                extra["layers"] = self.tool.layers(engine)
                self.found.add(Row(backend, case, summarize(measured), None, extra))

    def _times(
        self, workload: EngineWorkload, engines: Mapping[tuple[str, int], Engine]
    ) -> dict[tuple[str, int], list[float] | LenetTrtError]:
        """Time the engines in turns; an engine that fails is left out, and its error is kept."""
        times: dict[tuple[str, int], list[float] | LenetTrtError] = {key: [] for key in engines}
        for turn in range(QUICK_ROUNDS if self.options.quick else ROUNDS):
            self.found.say(f"{workload.name}: turn {turn + 1}")
            for key, engine in engines.items():
                iterations = SLOW_ITERATIONS if workload.slow and key[0] != OURS else ITERATIONS
                before = times[key]
                if isinstance(before, LenetTrtError):
                    continue
                try:
                    times[key] = before + self.tool.timed(engine, workload.shapes(key[1]), iterations)
                except LenetTrtError as problem:
                    times[key] = problem
            self.found.sample_clocks()
        return times

    def _engine(
        self, workload: EngineWorkload, backend: str, batch: int, engines: Mapping[tuple[str, int], Engine]
    ) -> Engine:
        """Build an engine: TensorRT gets one for each batch, and chooses for that batch; ours gets one for all."""
        if backend == OURS and (same := [engine for (name, _), engine in engines.items() if name == OURS]):
            return same[0]
        stem = re.sub(r"[^\w.=-]+", "_", f"{workload.name}-{backend}-{batch}")
        sizes = (1, batch, workload.largest) if backend == OURS else (workload.checked(batch), batch, batch)
        shapes = [workload.shapes(size) for size in sizes] if workload.batched else []
        engine = self.tool.built(
            workload.model,
            self.folder / f"{stem}.engine",
            replace(BACKENDS[backend], quick_search=workload.slow),
            shapes,
            with_plugins=backend == OURS,
            external_tactics=backend == EXTERNAL,
        )
        self.found.say(f"{workload.name}, {backend}, batch {batch}: built in {engine.build_seconds:.0f} s")
        return engine

    def _errors(self, engine: Engine, inputs: Arrays, model: EngineModel, wanted: Outputs) -> dict[str, float]:
        """Return the error against float64, of the worst output: in norm, and the largest one to the largest value."""
        errors, largest = [], []
        for found, right in zip(outputs_of(self.tool, engine, model.typed, inputs), wanted, strict=True):
            seen = found.reshape(right.shape)
            errors.append(relative_error(seen, right))
            unit = max(float(np.abs(right).max(initial=0.0)), 1e-300)
            largest.append(float(np.abs(seen - right).max(initial=0.0)) / unit)
        return {"error": max(errors), "max_error": max(largest)}


def _case(workload: EngineWorkload, batch: int) -> RowCase:
    return {"workload": workload.name, "batch": batch} if workload.batched else {"workload": workload.name}


def _notes(tool: EngineTool) -> list[str]:
    """Return sentences that say how times and errors were measured."""
    return [
        f"Times are the GPU's for one inference, by {tool} with a CUDA graph and no copies; {ROUNDS} turns of all "
        "engines of a workload, and the median of all inferences. Inputs stay in the L2 cache where they fit. TensorRT "
        "has an engine for each batch, our plugin one for all.",
        "The error is relative to float64; a result is right up to "
        + ", ".join(f"{limit:g} in {name}" for name, limit in LIMITS.items())
        + ".",
    ]


def columns(record: Record) -> list[Column]:
    """Return the columns: workload, batch, backend, time with its interval, factor to ours, error and build time."""

    def faster(row: Row) -> str:
        ours = record.find(OURS, **row.case)
        if row.stats is None or ours is None or ours.stats is None or row.backend == OURS:
            return "-"
        return f"{row.stats.median_us / ours.stats.median_us:.3g}"

    return [
        Column("workload", lambda row: str(row.case["workload"]), left=True),
        Column("batch", lambda row: str(row.case.get("batch", "-"))),
        Column("backend", lambda row: row.backend, left=True),
        Column("median", lambda row: duration(row.stats.median_us) if row.stats else "-"),
        Column(
            "95% interval",
            lambda row: f"{duration(row.stats.low_us)} to {duration(row.stats.high_us)}" if row.stats else "-",
        ),
        Column("it / ours", faster),
        Column("error", lambda row: f"{row.extra['error']:.1e}" if row.extra.get("error") is not None else "-"),
        Column("build", lambda row: f"{row.extra['build_seconds']:.0f} s" if "build_seconds" in row.extra else "-"),
    ]


def summaries(record: Record) -> list[Summary]:
    """Return TensorRT at its best beside ours."""
    found = best_peers_summary(record)
    return [] if found is None else [found]


def charts(record: Record) -> list[Chart]:
    """Draw microseconds per image over the batch for LeNet-5, in each precision."""
    found = []
    for workload in ("LeNet-5 fp32", "LeNet-5 fp16", "LeNet-5 int8"):
        rows = [row for row in record.timed if row.case["workload"] == workload]
        names = list(dict.fromkeys(row.backend for row in rows if row.backend in _DRAWN))
        series = [_series([row for row in rows if row.backend == name], name) for name in names]
        if any(len(each.x) > 1 for each in series):
            where = f"{record.gpu}, {record.details.get('trtexec')}, CUDA graph, no copies"
            title = f"{workload} in a TensorRT engine"
            unit = "microseconds an image"
            found.append(Chart(title, "batch", unit, series, True, True, (where,), named_at_ends=True))
    return found


def _series(rows: Sequence[Row], name: str) -> Series:
    points = [(int(row.case["batch"]), row.stats) for row in rows if row.stats]
    return Series(
        name,
        [batch for batch, _ in points],
        [stats.median_us / batch for batch, stats in points],
        emphasis=name == OURS,
        low=[stats.low_us / batch for batch, stats in points],
        high=[stats.high_us / batch for batch, stats in points],
    )
