"""Measure the suite ``zoo``: where TensorRT loses time in networks of many kinds, layer by layer, by trtexec."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import onnx

from lenet_trt.bench.engine_tool import NOT_RUN, Engine
from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.resume import check_resumed, kept
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.bench.zoo import tables
from lenet_trt.bench.zoo.account import accounted
from lenet_trt.bench.zoo.ahead import Failures, SurveyJob, build_ahead
from lenet_trt.bench.zoo.cases import Builder, ZooCase
from lenet_trt.bench.zoo.kinds import node_kinds
from lenet_trt.bench.zoo.models import ExportedNetwork, exported_network, kept_folder
from lenet_trt.bench.zoo.networks import BATCH_AXIS, ZOO, ZooNetwork
from lenet_trt.bench.zoo.right import checked_results
from lenet_trt.bench.zoo.tables import PLUGINS, TENSORRT
from lenet_trt.cuda.gpus import Gpu, first_gpu, gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.draw.chart import Chart
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file, write_atomic
from lenet_trt.floors.ceilings import datasheet, measured_ceilings
from lenet_trt.floors.floor import Ceilings
from lenet_trt.floors.work import network_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from lenet_trt.profile.trtexec import Run, Trtexec, exported_times, find_trtexec, traced_engine
from lenet_trt.roofline.stage import roofline
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY
from lenet_trt.trace.timeline import Timeline, save
from lenet_trt.trace.traced_model import of_model

TAKES_ONLY = True
columns, summaries = tables.columns, tables.summaries
BATCHES, QUICK_BATCHES = (1, 32), (1,)
PRECISIONS = ("fp32", "fp16")
ITERATIONS, QUICK_ITERATIONS = 200, 20
TURNS, QUICK_TURNS = 2, 1
GRAPH = "graph runtime"
# The GPUs of the floors by calculation: a data-centre card and one of a desktop.
DATASHEETS = ("H200", "RTX 4090")
TRACES = "traces"


def measure(options: SuiteOptions) -> Record:
    """Build and time every network in every batch and precision; with ``build_only``, build without a GPU.

    Raises:
        LenetTrtError: there is no GPU, or no network can be exported because torch is missing.
    """
    gpu = None if options.build_only else _gpu()
    with kept_folder(options.models, "--models") as models, recording("zoo", options) as found:
        names = [network.name for network in ZOO]
        chosen = [network for network in ZOO if found.wants(network.name, names)]
        if gpu is None:
            _build_all(chosen, models, options, found)
        else:
            _measure_all(chosen, models, options, found, gpu)
    return found.finish()


def charts(record: Record) -> list[Chart]:
    """Draw nothing: the tables of kinds say it."""
    return []


def _gpu() -> Gpu:
    gpu = first_gpu()
    if gpu is None:
        raise LenetTrtError(
            f"the suite zoo times engines on a GPU, and there is none here ({gpus().problem}): run it on a machine "
            "with a GPU and trtexec, or build the networks alone, with --build-only"
        )
    return gpu


def _measure_all(chosen: Sequence[ZooNetwork], models: Path, options: SuiteOptions, found: Recording, gpu: Gpu) -> None:
    tool: Trtexec | LenetTrtError
    try:
        tool = find_trtexec(options.trtexec)
        found.details["trtexec"] = str(tool)
        if (library := options.library or DEFAULT_LIBRARY).is_file():
            found.details["library_sha256"] = sha256_file(library)
    except LenetTrtError as problem:
        tool = problem
    check_resumed(options.resume, found, "zoo", gpu.name)
    ceilings = measured_ceilings()
    found.details["ceilings"] = {"gpu": ceilings.gpu, "launch_us": ceilings.launch_us, "source": ceilings.source}
    found.details["flags"] = list(options.trtexec_flags)
    found.details["jobs"] = options.jobs
    found.notes += tables.notes(str(tool) if isinstance(tool, Trtexec) else None)
    batches = options.batches or (QUICK_BATCHES if options.quick else BATCHES)
    precisions = options.precisions or PRECISIONS

    def done(network: ZooNetwork, batch: int, precision: str) -> bool:
        return bool(kept(options.resume, _case(network, batch, precision), TENSORRT, PLUGINS))

    with kept_folder(options.engines, "--engines") as folder:
        builder = tool if isinstance(tool, LenetTrtError) else Builder.of(options, tool, gpu, folder)
        failed: Failures = {}
        if isinstance(builder, Builder) and options.jobs > 1:
            missing = [
                SurveyJob(network.name, batch, tuple(each for each in precisions if not done(network, batch, each)))
                for network, batch in product(chosen, batches)
            ]
            wanted = [job for job in missing if job.precisions]
            failed = build_ahead(wanted, models, builder, options.jobs, found)
        for network in chosen:
            mine = {job[1:]: problem for job, problem in failed.items() if job[0] == network.name}
            bench = _Bench(network, models, options, found, ceilings, builder, batches, mine)
            for batch, precision in product(batches, precisions):
                bench.add(batch, precision)
            found.sample_clocks()


def _case(network: ZooNetwork, batch: int, precision: str) -> RowCase:
    return {"network": network.name, "batch": batch, "precision": precision}


@dataclass(frozen=True)
class _Bench:
    """Measure one network; ``failed``: the engines that could not be built, by batch, precision and backend."""

    network: ZooNetwork
    models: Path
    options: SuiteOptions
    found: Recording
    ceilings: Ceilings
    builder: Builder | LenetTrtError
    batches: Sequence[int]
    failed: Mapping[tuple[int, str, str], LenetTrtError]

    def add(self, batch: int, precision: str) -> None:
        """Add the rows of every backend: kept from the record that is resumed, measured, or with the reason why not."""
        case = _case(self.network, batch, precision)
        for backends, measured in (((TENSORRT, PLUGINS), self._tensorrt), ((GRAPH,), self._graph)):
            if old := kept(self.options.resume, case, *backends):
                self.found.rows += old
                continue
            self.found.say(f"{self.network.name}, batch {batch}, {precision}: {backends[0]}")
            try:
                with tempfile.TemporaryDirectory(prefix="lenet-trt-zoo-case-") as scratch:
                    measured(case, batch, precision, Path(scratch))
            except (LenetTrtError, RuntimeError) as problem:  # torch tells of an operator or of memory by RuntimeError
                self.found.cannot(backends[0], case, problem)

    @cached_property
    def _exported(self) -> ExportedNetwork:
        return exported_network(self.network, self.models, self.found)

    def _tensorrt(self, case: RowCase, batch: int, precision: str, scratch: Path) -> None:
        """Build the network with TensorRT's own layers and with our plugins, and time both engines in turns."""
        if isinstance(self.builder, LenetTrtError):
            raise self.builder
        exported, tool = self._exported, self.builder.tool
        models, engines = ZooCase(exported, batch, precision), self.builder.engines(scratch)
        drawn = self.network.drawn(batch)
        inputs: dict[str, Path] = {}
        for name, array in drawn.items():
            array.tofile(inputs.setdefault(name, scratch / f"{name}.bin"))
        timed: dict[str, _Traced | LenetTrtError] = {}
        for backend in models.backends:
            if problem := self.failed.get((batch, precision, backend)):
                timed[backend] = problem
                continue
            try:
                built = models.built(backend, engines, self.builder.folder)
            except LenetTrtError as problem:
                timed[backend] = problem
                continue
            (exports := scratch / built.path.stem).mkdir()
            iterations = QUICK_ITERATIONS if self.options.quick else ITERATIONS
            run = Run(built.path, {}, iterations, transfers=False, trust=True, exports=exports, inputs=inputs)
            library = self.builder.library if backend == PLUGINS else None
            timed[backend] = _Traced(built, replace(run, library=library), tool)
        _run_in_turns(timed, QUICK_TURNS if self.options.quick else TURNS)
        for backend, traced in timed.items():
            try:
                if isinstance(traced, LenetTrtError):
                    raise traced
                name = f"n{batch}-{precision}" + "-plugins" * (backend == PLUGINS)
                self._keep(traced.timeline, exported, name, batch)
                ran = models.ran(backend, weak=engines.weak)
                nodes = network_of(ran, {BATCH_AXIS: batch}).nodes
                extra = {
                    **exported.facts,
                    "build_seconds": traced.engine.build_seconds,
                    "engine_bytes": traced.engine.path.stat().st_size,
                    **accounted(traced.timeline, nodes, node_kinds(ran), self.ceilings),
                }
                if backend == PLUGINS:
                    extra["plugins"] = dict(models.plugins)
                smallest = batch == min(self.batches)
                extra |= checked_results(engines, traced.engine, models, drawn, smallest=smallest)
                self.found.add(Row(backend, case, summarize(traced.times_us), None, extra))
            except LenetTrtError as problem:
                self.found.cannot(backend, case, problem)

    def _keep(self, timeline: Timeline, exported: ExportedNetwork, name: str, batch: int) -> None:
        """Keep the trace for lenet-trt report, where the user named a folder for the networks."""
        if self.options.models is None:
            return
        folder = self.models / TRACES
        folder.mkdir(exist_ok=True)
        sized = replace(of_model(timeline, exported.path, folder), sizes={BATCH_AXIS: batch})
        save(sized, folder / f"{self.network.name}-{name}.json")

    def _graph(self, case: RowCase, batch: int, precision: str, folder: Path) -> None:
        from lenet_trt.optimize.timed import in_turns
        from lenet_trt.runtimes.graph.runtime import torch_with_gpu
        from lenet_trt.runtimes.load import load

        torch_with_gpu()  # before the model is made, which takes a while for large ones
        exported = self._exported
        model = convert(exported.at(batch), precision)
        write_atomic(path := folder / "network.onnx", model.SerializeToString())
        drawn = self.network.drawn(batch)
        with closing(load(path, "graph")) as loaded:
            (stats,) = in_turns([loaded], [drawn[port.name] for port in loaded.inputs], self.options.plan)
        floor = roofline(network_of(model, {BATCH_AXIS: batch}), self.ceilings)
        self.found.add(Row(GRAPH, case, stats, None, {"needed_us": round(floor.needed_us, 3)}))


class _Traced:
    """Hold an engine, the times of all its runs in microseconds, and the trace of the last run."""

    timeline: Timeline

    def __init__(self, engine: Engine, how: Run, tool: Trtexec) -> None:
        self.engine, self.times_us = engine, list[float]()
        self._how, self._tool = how, tool

    def run(self) -> None:
        """Run the engine once more.

        Raises:
            LenetTrtError: trtexec did not run it.
        """
        self.timeline = traced_engine(self._how, self._tool)
        self.times_us += exported_times(self._how)


def _run_in_turns(engines: dict[str, _Traced | LenetTrtError], turns: int) -> None:
    """Run the engines in turns; one that fails is left out from then on, and its error takes its place."""
    for _ in range(turns):
        for backend, traced in engines.items():
            try:
                if isinstance(traced, _Traced):
                    traced.run()
            except LenetTrtError as problem:
                engines[backend] = problem


def _build_all(chosen: Sequence[ZooNetwork], models: Path, options: SuiteOptions, found: Recording) -> None:
    """Build each network by TensorRT-RTX for GPUs that are not here, and calculate its floors from data sheets."""
    from lenet_trt.bench.zoo.builds import build_facts
    from lenet_trt.tensorrt.flavors import select

    flavor = select("rtx")
    fused_for = datasheet(DATASHEETS[0]).sm
    found.details["builder"] = flavor.product
    batches = options.batches or BATCHES
    for network in chosen:
        try:
            exported = exported_network(network, models, found)
            usual = {BATCH_AXIS: max(batches)}
            plugins = Counter(plugin_nodes(fuse(exported.model, "auto", [fused_for], usual).model).values())
        except LenetTrtError as problem:
            found.cannot(flavor.product, {"network": network.name, "precision": "any"}, problem)
            continue
        for precision in options.precisions or PRECISIONS:
            case: RowCase = {"network": network.name, "precision": precision}
            found.say(f"{network.name}, {precision}: build")
            facts = {**exported.facts, "about": network.about, "plugins": dict(plugins)}
            try:
                model = convert(exported.model, precision)
                facts["floors"] = _floors(exported, model, batches)
                smallest, largest = exported.shapes(min(batches)), exported.shapes(max(batches))
                facts |= build_facts(model, flavor, (smallest, largest))
                found.cannot(flavor.product, case, NOT_RUN, **facts)
            except LenetTrtError as problem:
                found.cannot(flavor.product, case, problem, **facts)


def _floors(
    exported: ExportedNetwork, model: onnx.ModelProto, batches: Sequence[int]
) -> dict[str, Mapping[str, dict[str, float]]]:
    """Return for each GPU and batch the least time, node by node and as one kernel, and the share bound by memory."""
    found: dict[str, dict[str, dict[str, float]]] = {gpu: {} for gpu in DATASHEETS}
    for batch in batches:
        work = network_of(model, {BATCH_AXIS: batch})
        for gpu in DATASHEETS:
            line = roofline(work, datasheet(gpu))
            by_memory = sum(point.needed_us for point in line.points if point.bound == "memory")
            found[gpu][str(batch)] = {
                "needed_us": round(line.needed_us, 6),
                "as_one_us": round(line.as_one.needed_us, 6),
                "memory_share": round(by_memory / line.needed_us, 3),
            }
    return dict(found)
