"""Measure plans: write each plan's model, load it into the runtime, trace it, check it and time it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lenet_trt.build.evaluate import is_digit_classifier
from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.floors.floor import floor_us
from lenet_trt.floors.work import ModelWork, network_of
from lenet_trt.images.classify import classify
from lenet_trt.images.form import form_of
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.precision import kinds_of
from lenet_trt.optimize import gate, timed
from lenet_trt.optimize.records import Accuracy, Observation, ObservedRow
from lenet_trt.optimize.settings import Settings
from lenet_trt.optimize.space import PluginPlan, Space
from lenet_trt.profile.stage import profile_model
from lenet_trt.run.predictions import Score
from lenet_trt.runtimes.inputs import Sizes, arrays_for, shapes_of
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.network import Network
from lenet_trt.runtimes.table import engines_alone
from lenet_trt.tensorrt.engine import BuildOptions
from lenet_trt.trace.engine import traced_work
from lenet_trt.trace.findings import findings_of
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.timeline import Timeline, save
from lenet_trt.trace.traced_model import of_model

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork

PLAIN = PluginPlan()
# The subfolder of the output folder for models that are tried.
TRIED = "tried"
TIMELINES = "timelines"


class Bench:
    """Measure plans of one model; ``folder`` holds the tried models and the traces.

    ``source``: the model's own file, which the trace of the plain model names.
    """

    def __init__(
        self,
        space: Space,
        settings: Settings,
        folder: Path,
        log: Callable[[str], None] = lambda _: None,
        source: Path | None = None,
    ) -> None:
        self._space, self._settings, self._folder, self._log, self._source = space, settings, folder, log, source
        self._ceilings: Ceilings | None = None
        self._ceilings_asked = False
        self._inputs: tuple[int | None, list[NDArray[Any]]] | None = None
        self._wanted: tuple[int | None, str, list[NDArray[Any]], float | None] | None = None
        self._networks: dict[tuple[str, int | None], ModelWork | None] = {}
        self._scores: dict[tuple[str, int | None], Score] = {}
        self._built: set[Path] = set()

    @property
    def ceilings(self) -> Ceilings | None:
        """Return what the GPU can do, measured once (and cached on disk); None where that is not possible."""
        if not self._ceilings_asked:
            self._ceilings_asked = True
            try:
                from lenet_trt.floors.ceilings import measured_ceilings

                self._ceilings = measured_ceilings()
            except LenetTrtError as error:
                self._log(f"floors are not known: {error}")
        return self._ceilings

    def observe(self, plan: PluginPlan, batch: int | None) -> Observation:
        """Trace a plan's model in a process of its own, and account for its time.

        Where no recorder works here, the observation has no rows, and says why.
        """
        path = self.file(plan, batch)
        try:
            trace = profile_model(
                path, self._settings.runtime, batch=batch, recorder=self._settings.recorder, trust=True
            )
        except LenetTrtError as error:
            (stats,) = self.compare((plan,), batch)
            self._log(f"not traced ({error}): every candidate is tried")
            return Observation(stats.median_us, (), why=str(error))
        nodes = self._work(plan, batch)
        name = f"{TIMELINES}/{plan.key}.json" if batch is None else f"{TIMELINES}/{plan.key}-n{batch}.json"
        if self._source is not None and not plan.pieces:
            trace = of_model(trace, self._source, (self._folder / name).parent)
            trace = replace(trace, sizes={**self._settings.sizes, **trace.sizes})  # open axes of that file
        save(trace, self._folder / name)
        return replace(observation(trace, nodes, self.ceilings), timeline=name)

    def check(self, plan: PluginPlan, batch: int | None) -> Accuracy:
        """Compare a plan's outputs with the reference, and count right answers where there are labels."""
        arrays = self._arrays(batch)
        reference, wanted, plain_error = self._reference(batch)
        with self._loaded(plan, batch) as network:
            outputs = _outputs(network, arrays)
        tolerance = gate.tolerance_of(kinds_of(self._space.model), self._settings.tolerance)
        try:
            found = Accuracy(reference, gate.worst_error(outputs, wanted), plain_error, tolerance)
        except LenetTrtError as error:
            return Accuracy(reference, None, plain_error, tolerance, problem=str(error))
        if self._labelled:
            score, before = self._score(plan, batch), self._score(PLAIN, batch)
            if before.labelled:
                found = replace(found, correct=score.correct, plain_correct=before.correct, labelled=before.labelled)
        return replace(found, problem=gate.problem(found, self._settings.max_drop))

    def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, *, chosen: bool = False) -> tuple[Stats, ...]:
        """Time plans in turns, in one run."""
        arrays = self._arrays(batch)
        with ExitStack() as stack:
            networks = [stack.enter_context(self._loaded(plan, batch)) for plan in plans]
            return tuple(timed.in_turns(networks, arrays, self._settings.timing))

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        """Return the least time for these nodes of the plain model as one kernel; 0 where it is not known."""
        network = self._network(PLAIN, batch)
        if network is None or self.ceilings is None:
            return 0.0
        there = [entry.node for entry in network.nodes if entry.node in nodes]  # without constant nodes
        if not there:
            return 0.0
        together = network.fused(there, "together", "")
        # A kernel may reach the accuracy of fp32 on tensor cores.
        arithmetic = "split" if together.arithmetic == "fp32" else together.arithmetic
        return floor_us(together.work, arithmetic, self.ceilings, launch=False)

    def file(self, plan: PluginPlan, batch: int | None) -> Path:
        """Return the plan's model on disk: ONNX, or the engine built from it."""
        path = self._folder / TRIED / f"{plan.key}.onnx"
        if not path.is_file():
            write_atomic(path, self._space.fitted(plan).model.SerializeToString())
        return self._engine(path, plan, batch) if engines_alone(self._settings.runtime) else path

    def _engine(self, path: Path, plan: PluginPlan, batch: int | None) -> Path:
        engine = path.with_name(f"{plan.key}.engine" if batch is None else f"{plan.key}-n{batch}.engine")
        if engine not in self._built:
            self._log(f"building {engine.name}")
            self._built.add(engine_of(path, engine, batch, self._settings, path.parent))
        return engine

    def _loaded(self, plan: PluginPlan, batch: int | None) -> closing[Network]:
        return closing(load(self.file(plan, batch), self._settings.runtime, trust=True))

    def _arrays(self, batch: int | None) -> list[NDArray[Any]]:
        if self._inputs is None or self._inputs[0] != batch:
            with self._loaded(PLAIN, batch) as network:
                shapes, _ = shapes_of(network.inputs, Sizes(batch))
                self._inputs = batch, arrays_for(network.inputs, shapes)
        return self._inputs[1]

    def _reference(self, batch: int | None) -> tuple[str, list[NDArray[Any]], float | None]:
        if self._wanted is None or self._wanted[0] != batch:
            arrays = self._arrays(batch)
            with self._loaded(PLAIN, batch) as network:
                plain = _outputs(network, arrays)
            self._wanted = batch, *self._exact(arrays, plain)
        return self._wanted[1:]

    def _exact(
        self, arrays: Sequence[NDArray[Any]], plain: list[NDArray[Any]]
    ) -> tuple[str, list[NDArray[Any]], float | None]:
        """Return the best reference that can be had here, its outputs, and how far the model as it is is from them."""
        for name, compute in ((gate.FLOAT64, gate.float64_outputs), (gate.ONNX_RUNTIME, gate.onnx_runtime_outputs)):
            try:
                wanted = compute(self._space.given, arrays)
                return name, wanted, gate.worst_error(plain, wanted)
            except LenetTrtError as error:
                self._log(f"no reference by {name} ({error})")
        return gate.PLAIN, plain, None

    @property
    def _labelled(self) -> bool:
        given = bool(self._settings.images or self._settings.labels)
        return given or is_digit_classifier(self._space.model)

    def _score(self, plan: PluginPlan, batch: int | None) -> Score:
        from lenet_trt.images.batches import batches

        if (plan.key, batch) not in self._scores:
            score = Score()
            with self._loaded(plan, batch) as network:
                fixed = network.inputs[0].axes[0]
                count = fixed if isinstance(fixed, int) else batch or 1
                for each in batches(list(self._settings.images), form_of(network.inputs), count, self._settings.labels):
                    score.add(each.labels, classify(network, each.pixels))
            self._scores[plan.key, batch] = score
        return self._scores[plan.key, batch]

    def _work(self, plan: PluginPlan, batch: int | None) -> Sequence[NodeWork] | None:
        """Return the work of the nodes of a plan's model; None where that is not known."""
        network = self._network(plan, batch)
        return None if network is None else network.nodes

    def _network(self, plan: PluginPlan, batch: int | None) -> ModelWork | None:
        if (plan.key, batch) not in self._networks:
            model = self._space.fitted(plan).model
            found = None
            try:
                _, sizes = shapes_of(ports(model)[0], Sizes(batch))
                found = network_of(model, sizes)
            except LenetTrtError as error:
                self._log(f"the work is not known: {error}")
            self._networks[plan.key, batch] = found
        return self._networks[plan.key, batch]


def _outputs(network: Network, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    found = network(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


def engine_of(onnx: Path, engine: Path, batch: int | None, settings: Settings, tried: Path) -> Path:
    """Build an engine for one batch size and for the GPU here (or the GPUs in the settings).

    The engines of one run share what TensorRT timed, in a file in the folder ``tried``: a layer that stays has the same
    kernel in all of them, and is timed once.
    """
    from lenet_trt.build.request import BuildRequest
    from lenet_trt.build.stage import build
    from lenet_trt.tensorrt.flavors import select

    timings = tried / "timings.cache" if select(settings.flavor).can.timing_cache else None
    size = None if batch is None else str(batch)
    request = BuildRequest(
        onnx=onnx,
        batch=size,
        flavor=settings.flavor,
        sms=settings.sms,
        output=engine,
        options=BuildOptions(timing_cache=timings),
    )
    return build(request).engine


def observation(trace: Timeline, nodes: Sequence[NodeWork] | None, ceilings: Ceilings | None) -> Observation:
    """Return the ledger and the findings of a trace, as the loop needs them."""
    nodes = None if nodes is None else traced_work(trace, nodes)
    books = ledger_of(trace, nodes, ceilings)
    rows = [
        ObservedRow(
            row.node,
            row.nodes or ((row.node,) if row.node else ()),
            row.terms.kernel_us + row.terms.copies_us + row.terms.launch_gaps_us,
            row.terms.floor_us,
        )
        for row in books.rows
    ]
    found = tuple(entry.as_dict() for entry in findings_of(trace, books, nodes, ceilings))
    return Observation(books.end_to_end_us, tuple(rows), books.as_dict(), found, trace.source)


def sources(space: Space) -> Mapping[str, str]:
    """Return the kernels that could be used, and the hash of each kernel's source."""
    from lenet_trt.cuda.compile import source_sha256
    from lenet_trt.kernel.registry import kernel

    names = {piece.kernel for plan in space.candidates for piece in plan.pieces}
    return {name: source_sha256(kernel(name)) for name in sorted(names)}
