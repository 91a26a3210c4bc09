"""The report verb: one page that says where the time of a traced run went."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file, write_atomic
from lenet_trt.reporting.content import Content, Run, headline
from lenet_trt.timeline import Timeline, load

if TYPE_CHECKING:
    from lenet_trt.floors import Ceilings
    from lenet_trt.work import NodeWork


def run_of(timeline: Timeline, label: str, nodes: Sequence[NodeWork] = (), ceilings: Ceilings | None = None) -> Run:
    """A timeline with its ledger, findings and tables.

    Raises:
        LenetTrtError: the timeline holds nothing that could be taken for an inference.
    """
    from lenet_trt.findings import findings
    from lenet_trt.ledger import ledger
    from lenet_trt.tables import tables

    found = ledger(timeline, nodes or None, ceilings)
    return Run(label, timeline, found, tuple(findings(timeline, found, nodes or None, ceilings)), tables(timeline))


def content_of(
    timeline: Timeline,
    *,
    model: Path | None = None,
    ceilings: Ceilings | None = None,
    before: Timeline | None = None,
    before_model: Path | None = None,
    optimized: Mapping[str, Any] | None = None,
    label: str = "now",
    before_label: str = "before",
    commands: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> Content:
    """Gather what a report tells of a timeline; ``missing`` says why ceilings or model are not known.

    Raises:
        LenetTrtError: the model cannot be read, or a timeline holds no inference.
    """
    reasons = dict(missing or {})
    nodes, problem = _nodes(timeline, model)
    if problem:
        reasons["roofline"] = "; ".join(filter(None, (reasons.get("roofline"), problem)))
    made = [timeline.command, *(() if before is None else (before.command,)), *commands]
    return Content(
        run=run_of(timeline, label, nodes, ceilings),
        nodes=tuple(nodes),
        ceilings=ceilings,
        before=None if before is None else run_of(before, before_label, _nodes(before, before_model)[0], ceilings),
        optimized=optimized,
        commands=tuple(dict.fromkeys(command for command in made if command)),
        missing=reasons,
        model_file=None if model is None else str(model),
    )


def _nodes(timeline: Timeline, model: Path | None) -> tuple[Sequence[NodeWork], str]:
    """What the model's nodes have to do; or none of them and why."""
    from lenet_trt.model import load_model
    from lenet_trt.work import work_of

    path = model or (Path(timeline.model) if timeline.model else None)
    if path is None:
        return (), "the trace does not name its model: give it with --model"
    if model is None and (path.suffix != ".onnx" or not path.is_file()):
        return (), f"the model {path.name} is not here: give it with --model"
    changed = bool(timeline.model_sha256) and path.is_file() and sha256_file(path) != timeline.model_sha256
    if changed and model is None:
        return (), f"{path.name} has changed since the trace was made: give the model with --model"
    loaded = load_model(path)
    if changed:
        print(f"warning: {path} is not the file that was traced (its SHA-256 differs)", file=sys.stderr)
    open_axes = {axis.dim_param for value in loaded.graph.input for axis in value.type.tensor_type.shape.dim}
    unknown = sorted(open_axes - set(timeline.sizes) - {""})
    if unknown:
        return (), f"the trace does not say how large {', '.join(unknown)} was: give it with --sizes {unknown[0]}=N"
    return work_of(loaded, timeline.sizes), ""


def ceilings_of(timeline: Timeline, name: str | None = None, file: Path | None = None) -> tuple[Ceilings | None, str]:
    """The ceilings of the trace's GPU: of the file or data sheet named, else measured here; or None and why.

    Raises:
        LenetTrtError: the file holds no ceilings, or there is no such data sheet.
    """
    from lenet_trt.ceilings import SCHEMA, ceilings_from_json, datasheet, measured_ceilings
    from lenet_trt.gpu import gpus

    if name is not None:
        return datasheet(name), ""
    if file is not None:
        data = _json(file, "what lenet-trt roofline --json prints")
        return ceilings_from_json({"schema": SCHEMA, **data["ceilings"]} if "ceilings" in data else data, file), ""
    traced = timeline.environment.get("gpu")
    if not traced and timeline.environment.get("cpu"):
        return None, "the trace is of a CPU, and ceilings are of GPUs"
    advice = "name the GPU with --datasheet, or make the report where the trace was made"
    if not gpus().devices:
        return None, f"the ceilings of the GPU are not known here, where there is no GPU: {advice}"
    found = measured_ceilings()
    if traced and traced != found.gpu:
        return None, f"the trace is of {traced}, and the GPU here is {found.gpu}: {advice}"
    return found, ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("timeline", type=Path, metavar="TIMELINE.json", help="what lenet-trt profile wrote")
    parser.add_argument("--model", type=Path, metavar="MODEL.onnx", help="the model, where the trace cannot find it")
    parser.add_argument(
        "--sizes", metavar="NAME=N,...", default="", help="sizes of the model's open axes, where the trace has none"
    )
    parser.add_argument("--before", type=Path, metavar="OTHER.json", help="a timeline to compare with")
    parser.add_argument("--before-model", type=Path, metavar="MODEL.onnx", help="the model of that timeline")
    parser.add_argument("--optimize", type=Path, metavar="OPTIMIZE.json", help="what lenet-trt optimize recorded")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--datasheet", metavar="GPU", help="take the ceilings from this GPU's data sheet")
    source.add_argument(
        "--ceilings", type=Path, metavar="FILE", help="take those that lenet-trt roofline --json printed elsewhere"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: report.html; .md and .json are written as such"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, and write no page unless -o is given")
    form.add_argument("--markdown", action="store_true", help="print Markdown, and write no page unless -o is given")


def command(arguments: argparse.Namespace) -> int:
    """Write the report, or print it."""
    from lenet_trt.reporting.document import document

    if arguments.before_model and not arguments.before:
        raise UsageError("--before-model is the model of another timeline: give that with --before as well")
    timeline = _with_sizes(load(arguments.timeline), arguments.sizes)
    ceilings, problem = ceilings_of(timeline, arguments.datasheet, arguments.ceilings)
    content = content_of(
        timeline,
        model=arguments.model,
        ceilings=ceilings,
        before=None if arguments.before is None else _with_sizes(load(arguments.before), arguments.sizes),
        before_model=arguments.before_model,
        optimized=None if arguments.optimize is None else _json(arguments.optimize, "what lenet-trt optimize records"),
        label=arguments.timeline.name,
        before_label=arguments.before.name if arguments.before else "",
        commands=[shlex.join(arguments.command_line)] if hasattr(arguments, "command_line") else [],
        missing={"roofline": problem} if problem else {},
    )
    output: Path | None = arguments.output
    if output is None and not (arguments.json or arguments.markdown):
        output = Path("report.html")
    if output is not None:
        write_atomic(output, _rendered(content, output.suffix))
    if arguments.json:
        print(json.dumps(content.as_dict(), indent=2))
    elif arguments.markdown:
        print(document(content), end="")
    else:
        print(headline(content))
        if content.missing:
            print("\n".join(f"not known: {why}" for why in content.missing.values()))
        print(f"report  {output}")
    return 0


def _with_sizes(timeline: Timeline, given: str) -> Timeline:
    sizes = dict(timeline.sizes)
    for part in filter(None, given.split(",")):
        name, _, value = part.partition("=")
        if not name or not value.isdigit():
            raise UsageError(f"--sizes has {part!r}; wanted NAME=N, such as n=32")
        sizes[name] = int(value)
    return replace(timeline, sizes=sizes)


def _rendered(content: Content, suffix: str) -> bytes:
    from lenet_trt.reporting.document import document
    from lenet_trt.reporting.page import page

    if suffix == ".json":
        return (json.dumps(content.as_dict(), indent=2) + "\n").encode()
    if suffix in (".md", ".markdown"):
        return document(content).encode("utf-8")
    return page(content).encode("utf-8")


def _json(path: Path, wanted: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise LenetTrtError(f"{path} is not JSON ({error}); wanted {wanted}") from error
    if not isinstance(found, dict):
        raise LenetTrtError(f"{path} holds a {type(found).__name__}; wanted {wanted}")
    return found


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["report", *sys.argv[1:]]))
