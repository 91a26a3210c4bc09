"""Make the report: one page that says where the time of a traced run went."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.report.content import Content, TracedRun
from lenet_trt.trace.timeline import Timeline

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork


@dataclass(frozen=True)
class TracedWork:
    """Hold the work of a trace's nodes, and the kernels that could replace nodes; ``problem`` says what is missing."""

    nodes: Sequence[NodeWork] = ()
    replaceable: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def run_of(
    timeline: Timeline,
    label: str,
    nodes: Sequence[NodeWork] = (),
    ceilings: Ceilings | None = None,
    replaceable: Mapping[str, str] | None = None,
) -> TracedRun:
    """Combine a timeline with its ledger, findings and tables.

    Raises:
        LenetTrtError: the timeline holds nothing that could count as an inference.
    """
    from lenet_trt.trace.findings import findings_of, not_judged
    from lenet_trt.trace.ledger import ledger_of
    from lenet_trt.trace.tables import tables

    books = ledger_of(timeline, nodes or None, ceilings)
    found = findings_of(timeline, books, nodes or None, ceilings, replaceable)
    return TracedRun(label, timeline, books, tuple(found), tables(timeline), tuple(not_judged(timeline, books)))


def content_of(
    timeline: Timeline,
    *,
    model: Path | None = None,
    folder: Path = Path(),
    ceilings: Ceilings | None = None,
    before: Timeline | None = None,
    before_model: Path | None = None,
    before_folder: Path = Path(),
    optimized: Mapping[str, Any] | None = None,
    label: str = "now",
    before_label: str = "before",
    commands: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> Content:
    """Gather what a report says of a timeline; ``missing`` says why ceilings or model are not known.

    A timeline names its model by the path from the ``folder`` of the timeline.

    Raises:
        LenetTrtError: the model cannot be read, or a timeline holds no inference.
    """
    reasons = dict(missing or {})
    work = _traced_work(timeline, model, folder)
    if work.problem:
        reasons["roofline"] = "; ".join(filter(None, (reasons.get("roofline"), work.problem)))
    old = None
    if before is not None:
        past = _traced_work(before, before_model, before_folder)
        old = run_of(before, before_label, past.nodes, ceilings, past.replaceable)
    made = [timeline.command, *(() if before is None else (before.command,)), *commands]
    return Content(
        run=run_of(timeline, label, work.nodes, ceilings, work.replaceable),
        nodes=tuple(work.nodes),
        ceilings=ceilings,
        before=old,
        optimized=optimized,
        commands=tuple(dict.fromkeys(command for command in made if command)),
        missing=reasons,
        model_file=None if model is None else str(model),
    )


def _traced_work(timeline: Timeline, model: Path | None, folder: Path) -> TracedWork:
    """Return the work of the engine's layers or the model's nodes; or no work, and the reason."""
    from lenet_trt.trace.engine import traced_work

    found = _model_work(timeline, model, folder)
    nodes = traced_work(timeline, found.nodes)
    return TracedWork(nodes, found.replaceable, "" if nodes else found.problem)


def _model_work(timeline: Timeline, model: Path | None, folder: Path) -> TracedWork:
    from lenet_trt.floors.work import work_of
    from lenet_trt.fuse.replaceable import replaceable
    from lenet_trt.onnx_model.read import load_model
    from lenet_trt.trace.traced_model import find_model, warning

    path, problem = (model, "") if model is not None else find_model(timeline, folder)
    if path is None:
        return TracedWork(problem=problem)
    loaded = load_model(path)
    if model is not None and (said := warning(timeline, model)):
        print(said, file=sys.stderr)
    places = replaceable(loaded, [] if timeline.architecture is None else [timeline.architecture])
    open_axes = {axis.dim_param for value in loaded.graph.input for axis in value.type.tensor_type.shape.dim}
    unknown = sorted(open_axes - set(timeline.sizes) - {""})
    if unknown:
        problem = f"the trace does not say how large {', '.join(unknown)} was: give it with --sizes {unknown[0]}=N"
        return TracedWork(replaceable=places, problem=problem)
    return TracedWork(work_of(loaded, timeline.sizes), places)


def trace_ceilings(
    timeline: Timeline, name: str | None = None, file: Path | None = None
) -> tuple[Ceilings | None, str]:
    """Return the ceilings of the trace's GPU, from the named file or data sheet or measured here; or None and why.

    Raises:
        LenetTrtError: the file holds no ceilings, or there is no such data sheet.
    """
    from lenet_trt.cuda.gpus import gpus
    from lenet_trt.floors.ceilings import ceilings_in, datasheet, measured_ceilings

    if name is not None:
        return datasheet(name), ""
    if file is not None:
        return ceilings_in(file), ""
    traced = timeline.environment.get("gpu")
    if not traced and timeline.environment.get("cpu"):
        return None, "the trace is of a CPU, and ceilings are of GPUs"
    advice = "name the GPU with --datasheet, or make the report where the trace was made"
    if not gpus().devices:
        return None, f"the ceilings of the GPU are not known, and there is no GPU here: {advice}"
    found = measured_ceilings()
    if traced and traced != found.gpu:
        return None, f"the trace is of {traced}, and the GPU here is {found.gpu}: {advice}"
    return found, ""
