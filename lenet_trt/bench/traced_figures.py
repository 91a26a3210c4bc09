"""Make the figures of documents from records of ``lenet-trt optimize`` and from traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from lenet_trt.bench.sources import NOT_MEASURED, Sources
from lenet_trt.bench.tables import duration, markdown_text
from lenet_trt.draw.text import us_text
from lenet_trt.floors.ceilings import SCHEMA, ceilings_from_json
from lenet_trt.floors.floor import Ceilings
from lenet_trt.floors.work import work_of
from lenet_trt.onnx_model.read import load_model
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.engine import traced_work
from lenet_trt.trace.kernel_names import short_name
from lenet_trt.trace.ledger import TERMS, Ledger, ledger_of
from lenet_trt.trace.readers import timeline_from


def optimized_figure(sources: Sources, *names: str) -> str:
    """Return what ``lenet-trt optimize`` found, from its records: ``optimized optimize/matmul optimize/conv``."""
    lines = []
    for name in names:
        path = sources.path(name)
        if not path.is_file():
            lines.append([path.stem, NOT_MEASURED, "", "", "", ""])
            continue
        record, report = sources.data(path), path.with_suffix(".md")
        label = Path(record["model"]).stem
        if report.is_file():
            label = f"[{label}]({sources.link(report)})"
        for entry in record["chosen"]:
            counts = Counter(piece["kernel"] for piece in entry["plan"])
            used = [f"{count} `{name}`" if count > 1 else f"`{name}`" for name, count in counts.items()]
            by = ", ".join(used) or "nothing was faster"
            batch = "fixed" if entry["batch"] is None else f"{entry['batch']:,}"
            plans: tuple[Any, Any] = ([], entry["plan"])
            before, after = (
                _interval(next(times for times in entry["times"] if times["plan"] == plan)) for plan in plans
            )
            lines.append([label, batch, before, after, f"{entry['times_faster']:.1f}", by])
    headings = ("model", "batch", "before, us [95% interval]", "after, us [95% interval]", "times faster", "by")
    return markdown_text(headings, lines, left=(0, 5))


def _interval(times: Mapping[str, float]) -> str:
    median, low, high = (us_text(times[key]) for key in ("median_us", "low_us", "high_us"))
    return f"{median} [{low}, {high}]"


def ledger_figure(sources: Sources, ceilings: str, *runs: str) -> str:
    """Return the ledgers of traces side by side; files are named relative to the document.

    The words are ``ledger CEILINGS.json "before=TRACE.json.gz MODEL.onnx" "after=TRACE.json.gz MODEL.onnx"``.
    """
    folder = sources.document.parent
    if not (folder / ceilings).is_file():
        return NOT_MEASURED
    roof = ceilings_from_json({"schema": SCHEMA, **sources.data(folder / ceilings)["ceilings"]}, folder / ceilings)
    found, unprofiled = {}, {}
    for run in runs:
        label, _, files = run.partition("=")
        trace, model = (folder / file for file in files.split())
        found[label], unprofiled[label] = _ledger(trace, model, roof)
    terms = {label: asdict(each.total) for label, each in found.items()}
    used = [term for term in TERMS if any(each[term] for each in terms.values())]
    lines = [[TERMS[term], *(us_text(each[term]) for each in terms.values())] for term in used]
    lines.append(["end to end, under the profiler", *(us_text(each.end_to_end_us) for each in found.values())])
    lines.append(["end to end without the profiler, median", *(us_text(us) for us in unprofiled.values())])
    return markdown_text(("term, us", *found), lines, left=(0,))


def exported_figure(sources: Sources, times: str) -> str:
    """Return the median of the inferences that ``trtexec --exportTimes`` wrote: ``exported FILE``."""
    path = sources.document.parent / times
    if not path.is_file():
        return NOT_MEASURED
    return duration(median(each.us for each in timeline_from(path).iterations))


def layers_figure(sources: Sources, profile: str, information: str) -> str:
    """Return an engine's layers with kernels and times, from trtexec's exports: ``layers PROFILE LAYERS``."""
    found = timeline_from(sources.document.parent / profile, sources.document.parent / information).activities
    lines = [[each.node or "", f"`{short_name(each.name)}`", us_text(each.us)] for each in found if each.us]
    return markdown_text(("layer", "kernel", "us"), lines, left=(0, 1))


def engine_figure(sources: Sources, trace: str) -> str:
    """Return the layers of a traced engine with the types and formats of their tensors: ``engine TRACE.json.gz``."""
    path = sources.document.parent / trace
    if not path.is_file():
        return NOT_MEASURED
    timeline = timeline_from(path)
    known = {layer.node: layer for layer in timeline.layers}
    lines = []
    for each in (activity for activity in timeline.activities if activity.us):
        layer = known.get(each.node or "", EngineLayer(each.node or each.name))
        kernel = f"`{short_name(each.name)}`"
        lines.append([layer.node, _forms(layer.inputs), _forms(layer.outputs), kernel, us_text(each.us)])
    lines.append(["all layers", "", "", "", us_text(sum(each.us for each in timeline.activities))])
    return markdown_text(("layer", "reads", "writes", "kernel", "us"), lines, left=range(4))


def _forms(tensors: Sequence[LayerTensor]) -> str:
    return ", ".join(dict.fromkeys(each.stored or each.dtype for each in tensors))


def traced_figure(sources: Sources, *traces: str) -> str:
    """Return where and with which packages traces were recorded, as a list; files are relative to the document."""
    lines = []
    for name in traces:
        found = timeline_from(sources.document.parent / name)
        here = found.environment
        versions = ", ".join(f"{package} {version}" for package, version in here["packages"].items())
        lines.append(
            f"- `{Path(name).name}`: {here['gpu']}, driver {here['driver']} (CUDA {here['driver_cuda']}), NVRTC "
            f"{here['nvrtc']}; recorded by {found.source}; {versions}."
        )
    return "\n".join(lines)


def _ledger(trace: Path, model: Path, ceilings: Ceilings) -> tuple[Ledger, float | None]:
    timeline = timeline_from(trace)
    nodes = traced_work(timeline, work_of(load_model(model), timeline.sizes))
    return ledger_of(timeline, nodes, ceilings), timeline.unprofiled_us
