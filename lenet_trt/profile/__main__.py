"""Read the options of ``profile``, and print the tables of the trace."""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import UsageError
from lenet_trt.files import is_special, report_stream
from lenet_trt.onnx_model.profiles import parse_shapes
from lenet_trt.options import add_sizes, sizes_from_text, whole
from lenet_trt.overwrite import Mark, add_overwrite, beside, guard, has_keys, json_object
from lenet_trt.profile import trtexec
from lenet_trt.profile.request import DEFAULT_ITERATIONS, DEFAULT_WARMUP, RECORDERS
from lenet_trt.profile.stage import _existing, _of_model, profile_model
from lenet_trt.runtimes.table import CHOICES
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.find_library import add_library_argument
from lenet_trt.tensorrt.sidecar import sidecar_path
from lenet_trt.trace import tables
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline, save
from lenet_trt.trace.traced_model import of_model

DEFAULT_OUTPUT = "timeline.json"


_REPORT_SUFFIX = ".nsys-rep"


_SHOWN_ROWS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "model",
        nargs="?",
        type=Path,
        metavar="MODEL",
        help="an engine, an ONNX or a fused ONNX file; optional with --from",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--from",
        dest="traces",
        nargs="+",
        type=Path,
        metavar="TRACE",
        help="read an existing trace: .nsys-rep, its .sqlite, exports of trtexec (several together)",
    )
    source.add_argument("--trtexec", action="store_true", help="run an engine with trtexec (or tensorrt_rtx)")
    parser.add_argument(
        "--runtime", choices=CHOICES, default="auto", help="the runtime; auto prints the one that it chose"
    )
    parser.add_argument(
        "--with",
        dest="recorder",
        choices=RECORDERS,
        default="auto",
        help="the profiler: nsys, CUPTI in the process, or the runtime's own profiler (times of nodes only)",
    )
    parser.add_argument(
        "--batch",
        type=whole(),
        metavar="N",
        help="size of the first axis of each input where that axis is open (default: 1)",
    )
    add_sizes(parser, "sizes of open axes by their names")
    parser.add_argument("--shapes", metavar="NAME:1x3x28x28,...", help="whole shapes of inputs, written as for trtexec")
    parser.add_argument(
        "--iterations", type=whole(), default=DEFAULT_ITERATIONS, metavar="K", help="inferences to trace"
    )
    parser.add_argument(
        "--warmup", type=whole(0), default=DEFAULT_WARMUP, metavar="K", help="untraced inferences before"
    )
    parser.add_argument(
        "--transfers", action="store_true", help="copy inputs to the GPU and results back in each inference"
    )
    parser.add_argument("--trust", action="store_true", help="run an engine without a matching sidecar")
    add_library_argument(parser)
    parser.add_argument(
        "--trtexec-path", metavar="FILE", help="the trtexec or tensorrt_rtx to run (default: on the PATH)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help=f"the timeline, or a folder for it (default: {DEFAULT_OUTPUT}); nsys' report is kept beside it",
    )
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print the tables as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Trace, write the timeline and print its tables."""
    output = _output(arguments.output)
    model: Path | None = arguments.model
    # "." has no name.
    if model is not None and model.name and model.suffix != ".onnx" and output == sidecar_path(model):
        raise UsageError(f"-o {output}: the engine's sidecar has this name: choose another name")
    report = output.with_suffix(_REPORT_SUFFIX)
    _guard(arguments, output, report)
    before = report.stat().st_mtime_ns if report.is_file() else None
    timeline = _timeline(arguments, output, None if is_special(output) else report)
    timeline = replace(timeline, command=shlex.join(arguments.command_line))
    if arguments.model is not None:
        timeline = of_model(timeline, arguments.model, output.parent)
    told = report_stream(output)
    save(timeline, output)
    kept = report if report.is_file() and report.stat().st_mtime_ns != before else None
    if arguments.trtexec or arguments.trtexec_path:
        kept = _exports(output)
    if arguments.json:
        facts = _facts(timeline, output, kept) | tables.tables_json(tables.tables(timeline))
        print(json_text(facts), file=told)
        return 0
    lines = [_headline(timeline), "", tables.tables_text(tables.tables(timeline), _SHOWN_ROWS)]
    lines += [f"note: {note}" for note in timeline.notes]
    lines += [str(path) for path in (output, kept) if path is not None]
    print("\n".join(lines), file=told)
    return 0


def _guard(arguments: argparse.Namespace, output: Path, report: Path) -> None:
    """Refuse to replace files that are not from an earlier run; the timeline says which files beside it are."""
    timeline = has_keys("schema", "source", "iterations", "activities")
    outputs: dict[Path, Mark] = {output: timeline}
    if arguments.trtexec or arguments.trtexec_path:
        if is_special(output):
            raise UsageError(f"-o {output}: trtexec writes its exports beside the timeline: name a file")
        outputs |= {path: beside(output, timeline) for path in trtexec.export_paths(_exports(output)).values()}
    elif not arguments.traces:
        outputs[report] = beside(output, _traced_here)
    guard(outputs, [arguments.model, *(arguments.traces or ())], arguments.overwrite)


def _traced_here(path: Path) -> bool:
    """Say whether a timeline has its report beside it; a timeline that was read from another trace has none."""
    return b"--from" not in bytes(json_object(path).get("command", b"--from"))


def _output(path: Path | None) -> Path:
    if path is None:
        return Path(DEFAULT_OUTPUT)
    if is_special(path):
        return path
    return path if path.suffix == ".json" and not path.is_dir() else path / DEFAULT_OUTPUT


def _exports(output: Path) -> Path:
    """Return the folder for the files of trtexec."""
    return output.with_suffix("")


def _timeline(arguments: argparse.Namespace, output: Path, report: Path | None) -> Timeline:
    model: Path | None = arguments.model
    if arguments.traces:
        first, *more = arguments.traces
        timeline = timeline_from(first, *more)
        return timeline if model is None else _of_model(timeline, _existing(model))
    if model is None:
        raise UsageError("give MODEL, or an existing trace with --from TRACE")
    shapes = {} if arguments.shapes is None else parse_shapes("--shapes", arguments.shapes)
    sizes = sizes_from_text(arguments.sizes)
    if arguments.trtexec or arguments.trtexec_path:
        if arguments.batch is not None or sizes:
            raise UsageError("--batch and --sizes: trtexec takes whole shapes: give --shapes NAME:32x1x28x28")
        exports = _exports(output)
        run = trtexec.Run(
            _existing(model),
            shapes,
            arguments.iterations,
            arguments.transfers,
            arguments.trust,
            exports,
            arguments.library,
        )
        return _of_model(trtexec.traced_engine(run, trtexec.find_trtexec(arguments.trtexec_path)), model)
    if not gpus().devices:
        print(
            f"note: there is no GPU here ({gpus().problem}): ONNX Runtime is profiled on the CPU, and --from reads "
            "traces from other machines",
            file=sys.stderr,
        )
    return profile_model(
        model,
        arguments.runtime,
        batch=arguments.batch,
        sizes=sizes,
        shapes=shapes,
        iterations=arguments.iterations,
        warmup=arguments.warmup,
        recorder=arguments.recorder,
        transfers=arguments.transfers,
        trust=arguments.trust,
        library=arguments.library,
        report=report,
    )


def _facts(timeline: Timeline, output: Path, report: Path | None) -> dict[str, object]:
    return {
        "timeline": str(output),
        "report": None if report is None else str(report),
        "model": timeline.model,
        "runtime": timeline.runtime,
        "source": timeline.source,
        "sizes": dict(timeline.sizes),
        "profiled_us": _profiled_us(timeline),
        "unprofiled_us": timeline.unprofiled_us,
        "notes": list(timeline.notes),
    }


def _profiled_us(timeline: Timeline) -> float | None:
    return statistics.median(entry.us for entry in timeline.iterations) if timeline.iterations else None


def _headline(timeline: Timeline) -> str:
    """Return what ran where, and the time of an inference with and without the profiler."""
    sizes = ", ".join(f"{name}={size}" for name, size in timeline.sizes.items())
    where = timeline.environment.get("where") or timeline.environment.get("gpu") or "an unknown GPU"
    model = Path(timeline.model).name if timeline.model else "a trace"
    lines = [f"{model}{f' ({sizes})' if sizes else ''} on {where}, traced by {timeline.source}"]
    profiled = _profiled_us(timeline)
    if profiled is not None:
        lines.append(f"an inference, traced:    {profiled:.1f} us (median of {len(timeline.iterations)})")
    if timeline.unprofiled_us is not None:
        lines.append(f"an inference, untraced:  {timeline.unprofiled_us:.1f} us (median)")
    return "\n".join(lines)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["profile", *sys.argv[1:]]))
