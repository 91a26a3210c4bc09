"""Read the options of ``report``, and print its summary."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from lenet_trt.errors import UsageError
from lenet_trt.files import report_stream, write_atomic
from lenet_trt.options import add_sizes, sizes_from_text
from lenet_trt.overwrite import add_overwrite, guard, has_keys, says
from lenet_trt.report.content import Content, report_headline
from lenet_trt.report.document import MARK
from lenet_trt.report.page import GENERATOR
from lenet_trt.report.stage import content_of, trace_ceilings
from lenet_trt.schema import json_text
from lenet_trt.trace.timeline import Timeline, load_timeline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("timeline", type=Path, metavar="TIMELINE.json", help="a timeline of lenet-trt profile")
    parser.add_argument(
        "--model", type=Path, metavar="MODEL.onnx", help="the model, where the trace does not lead to it"
    )
    add_sizes(parser, "sizes of the model's open axes, where the trace has none")
    parser.add_argument("--before", type=Path, metavar="OTHER.json", help="a timeline to compare with")
    parser.add_argument("--before-model", type=Path, metavar="MODEL.onnx", help="the model of that timeline")
    parser.add_argument("--optimize", type=Path, metavar="OPTIMIZE.json", help="the record of lenet-trt optimize")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--datasheet", metavar="GPU", help="take the ceilings from this GPU's data sheet")
    source.add_argument(
        "--ceilings", type=Path, metavar="FILE", help="take the ceilings from a file of lenet-trt roofline --json"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the report (default: report.html); the suffix .md or .json chooses the form",
    )
    add_overwrite(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, and write no page unless -o is given")
    form.add_argument("--markdown", action="store_true", help="print Markdown, and write no page unless -o is given")


def command(arguments: argparse.Namespace) -> int:
    """Write the report, or print it."""
    from lenet_trt.optimize.record import read_optimize_record
    from lenet_trt.report.document import document

    if arguments.before_model and not arguments.before:
        raise UsageError("--before-model is the model of the earlier timeline: name that timeline with --before")
    output: Path | None = arguments.output
    if output is None and not (arguments.json or arguments.markdown):
        output = Path("report.html")
    timeline = _with_sizes(load_timeline(arguments.timeline), arguments.sizes)
    if output is not None:
        guard({output: _made_by_report}, _inputs(arguments, timeline), arguments.overwrite)
    ceilings, problem = trace_ceilings(timeline, arguments.datasheet, arguments.ceilings)
    content = content_of(
        timeline,
        model=arguments.model,
        folder=arguments.timeline.parent,
        ceilings=ceilings,
        before=None if arguments.before is None else _with_sizes(load_timeline(arguments.before), arguments.sizes),
        before_model=arguments.before_model,
        before_folder=arguments.before.parent if arguments.before else Path(),
        optimized=None if arguments.optimize is None else read_optimize_record(arguments.optimize),
        label=arguments.timeline.name,
        before_label=arguments.before.name if arguments.before else "",
        commands=[shlex.join(arguments.command_line)] if hasattr(arguments, "command_line") else [],
        missing={"roofline": problem} if problem else {},
    )
    told = report_stream(output)
    if output is not None:
        write_atomic(output, _rendered(content, output.suffix))
    if arguments.json:
        print(json_text(content.as_dict()), file=told)
    elif arguments.markdown:
        print(document(content), end="", file=told)
    else:
        missing = [f"not known: {why}" for why in content.missing.values()]
        print("\n".join([report_headline(content), *missing, f"report  {output}"]), file=told)
    return 0


def _inputs(arguments: argparse.Namespace, timeline: Timeline) -> list[Path | None]:
    names = ("timeline", "model", "before", "before_model", "optimize", "ceilings")
    return [*(getattr(arguments, name) for name in names), Path(timeline.model) if timeline.model else None]


def _made_by_report(path: Path) -> bool:
    """Recognise each form of a report: page, Markdown, JSON."""

    return any(mark(path) for mark in (says(GENERATOR), says(MARK), has_keys("schema", "ledger", "findings", "tables")))


def _with_sizes(timeline: Timeline, given: str | None) -> Timeline:
    return replace(timeline, sizes={**timeline.sizes, **sizes_from_text(given)})


def _rendered(content: Content, suffix: str) -> bytes:
    from lenet_trt.report.document import document
    from lenet_trt.report.page import page

    if suffix == ".json":
        return (json_text(content.as_dict()) + "\n").encode()
    if suffix in (".md", ".markdown"):
        return document(content).encode("utf-8")
    return page(content).encode("utf-8")


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["report", *sys.argv[1:]]))
