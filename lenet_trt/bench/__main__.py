"""Read the options of ``bench``: measure suites on this machine, print tables, write JSON, CSV and pictures."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.bench.suites import SUITES, USUAL, record_summaries, suite
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import write_atomic
from lenet_trt.options import add_batches, batches_of, whole
from lenet_trt.overwrite import add_overwrite, beside, guard, says

if TYPE_CHECKING:
    from lenet_trt.bench.record import Record
    from lenet_trt.bench.suite import SuiteOptions

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    listed = "; ".join(f"{name}: {summary}" for name, (_, summary) in SUITES.items())
    parser.add_argument(
        "suites", nargs="+", choices=(*SUITES, "all"), metavar="SUITE", help=f"{listed}; or all, without zoo"
    )
    parser.add_argument("--quick", action="store_true", help="few timings and cases, to see that everything runs")
    add_batches(parser, "batch sizes (default: the suite's)")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="for engines, kernels, ladder, latency and zoo: only workloads with this text in their name",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write SUITE.json, SUITE.csv and SUITE.svg into this folder"
    )
    add_overwrite(parser)
    parser.add_argument("--png", action="store_true", help="with -o: pictures as PNG instead of SVG")
    parser.add_argument("--json", action="store_true", help="print the records as JSON, one after the other")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OLD",
        help="print what changed beyond the noise since this record (SUITE.json, or a folder of them)",
    )
    parser.add_argument(
        "--trtexec-path",
        metavar="FILE",
        help="the program that builds engines (default: found on the PATH); 10k, sweep, cold and latency take it only "
        "where it is named, or where TensorRT's Python package does not run here",
    )
    parser.add_argument(
        "--trtexec-flags",
        nargs="+",
        default=[],
        metavar="FLAG",
        help="further flags of each build by that program, without --",
    )
    parser.add_argument(
        "--library",
        type=Path,
        metavar="FILE",
        help="the plugin library of engines, made by lenet-trt library (default: ./liblenet_trt_plugins.so)",
    )
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="for zoo: the folder of the exported networks; those that it lacks are exported into it",
    )
    parser.add_argument(
        "--engines",
        type=Path,
        metavar="DIR",
        help="for zoo: keep the engines in this folder, with what TensorRT timed for them; what is there is not built "
        "again",
    )
    parser.add_argument("--precision", choices=("fp32", "fp16"), help="for zoo: this one alone (default: both)")
    parser.add_argument(
        "--jobs",
        type=whole(),
        default=1,
        metavar="N",
        help="for zoo: build N networks at once, and then time all engines one after the other",
    )
    parser.add_argument(
        "--resume",
        nargs="+",
        type=Path,
        default=[],
        metavar="RECORD",
        help="for engines and zoo: keep the timings of these records, and measure the others",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="for zoo: build by TensorRT-RTX, which needs no GPU, and run nothing"
    )
    parser.add_argument(
        "--best-peers",
        action="store_true",
        help="for engines: time TensorRT also with kernels of cuBLAS and cuDNN, where the real libraries are found "
        "(TensorRT 8 and 9), and at optimization level 5 in every workload; this takes longer",
    )


def command(arguments: argparse.Namespace) -> int:
    """Measure the suites one after the other."""
    from lenet_trt.bench.record import load_record
    from lenet_trt.bench.resume import joined
    from lenet_trt.bench.suite import STOPPED, SuiteOptions

    batches = batches_of(arguments.batch)
    if arguments.png and arguments.output is None:
        raise UsageError("--png is the format of written pictures: name a folder with -o")
    if arguments.output is not None:
        _make(arguments.output)
    names = list(USUAL) if "all" in arguments.suites else list(dict.fromkeys(arguments.suites))
    if arguments.output is not None:
        _guard(arguments, names)
    compared = _old_records(arguments.compare, names)
    old = {name: load_record(path) for name, path in compared.items()}
    if arguments.only and (deaf := [name for name in names if not getattr(suite(name), "TAKES_ONLY", False)]):
        raise UsageError(f"--only is an option of engines, kernels, ladder, latency and zoo, not of {deaf[0]}")
    of_zoo = ("models", "engines", "precision", "build_only")
    if names != ["zoo"] and (any(getattr(arguments, name) for name in of_zoo) or arguments.jobs > 1):
        options_of_zoo = ", ".join(f"--{name.replace('_', '-')}" for name in of_zoo)
        raise UsageError(f"{options_of_zoo} and --jobs are options of zoo alone: measure it by itself")
    if arguments.resume and names not in (["zoo"], ["engines"]):
        raise UsageError("--resume is an option of engines and zoo: measure one of them by itself")
    if len(names) > 1:
        return _each_alone(names, arguments, compared)
    (name,) = names
    options = SuiteOptions(
        quick=arguments.quick,
        batches=batches,
        command=shlex.join(["lenet-trt", "bench", name, *_asked_for(arguments)]),
        only=tuple(arguments.only),
        trtexec=arguments.trtexec_path,
        trtexec_flags=tuple(f"--{flag}" for flag in arguments.trtexec_flags),
        library=arguments.library,
        models=arguments.models,
        engines=arguments.engines,
        jobs=arguments.jobs,
        precisions=(arguments.precision,) if arguments.precision else None,
        resume=joined([load_record(path) for path in arguments.resume]),
        build_only=arguments.build_only,
        best_peers=arguments.best_peers,
        record=arguments.output / f"{name}.json" if arguments.output else None,
    )
    record = _measure(name, options)
    _show(name, record, arguments, old.get(name))
    return 1 if STOPPED in record.details else INTERRUPTED if record.interrupted else 0


def _make(folder: Path) -> None:
    """Make the folder before the measurements, so that an error comes before them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"-o {folder}: wanted a folder, but it cannot be made: {error.strerror or error}") from error


def _guard(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Refuse to replace what is no record of a suite, or no table and picture beside one."""
    mark = says('"format": "lenet-trt bench"')
    for name in names:
        record = arguments.output / f"{name}.json"
        form = "png" if arguments.png else "svg"
        others = {arguments.output / f"{name}.{suffix}": beside(record, mark) for suffix in ("csv", form)}
        guard({record: mark, **others}, [], arguments.overwrite)


def _asked_for(arguments: argparse.Namespace) -> list[str]:
    """Return the options that decide what is measured, without those on the output."""
    words = [
        f"--{flag}" for flag in ("quick", "build-only", "best-peers") if getattr(arguments, flag.replace("-", "_"))
    ]
    for option, values in (
        ("--batch", arguments.batch),
        ("--only", arguments.only),
        ("--precision", [arguments.precision] * bool(arguments.precision)),
        ("--trtexec-flags", arguments.trtexec_flags),
    ):
        words += [option, *map(str, values)] if values else []
    return words


def _each_alone(names: Sequence[str], arguments: argparse.Namespace, compared: Mapping[str, Path]) -> int:
    """Measure each suite in its own process, so that settings and GPU memory of one do not affect the next."""
    common = _asked_for(arguments)
    for option, value in (
        ("--output", arguments.output),
        ("--trtexec-path", arguments.trtexec_path),
        ("--library", arguments.library),
    ):
        common += [option, str(value)] if value is not None else []
    common += [f"--{flag}" for flag in ("png", "json", "overwrite") if getattr(arguments, flag)]
    safe_path = ["-P"] if getattr(sys.flags, "safe_path", False) else []
    status = 0
    for name in names:
        against = ["--compare", str(compared[name])] if name in compared else []
        words = [sys.executable, *safe_path, "-m", "lenet_trt.bench", name, *common, *against]
        sys.stdout.flush()
        answer = _finished(subprocess.Popen(words))
        if answer == INTERRUPTED:
            return answer
        status = answer or status
    return status


def _finished(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process to end; after Ctrl-C, which it gets too, until it has kept what it measured."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _old_records(path: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """Return the old record of each suite."""
    if path is None:
        return {}
    if path.is_dir():
        found = {name: path / f"{name}.json" for name in names if (path / f"{name}.json").is_file()}
        if not found:
            raise UsageError(f"--compare {path}: it has no {' or '.join(f'{name}.json' for name in names)}")
        return found
    if len(names) > 1:
        raise UsageError(f"--compare {path} is one record, and {len(names)} suites are measured: name a folder")
    return {names[0]: path}


def _measure(name: str, options: SuiteOptions) -> Record:
    record: Record = suite(name).measure(options)
    if not record.rows and not record.interrupted:
        raise LenetTrtError(f"the suite {name} measured nothing")
    return record


def _show(name: str, record: Record, arguments: argparse.Namespace, old: Record | None) -> None:
    from lenet_trt.bench.compare import compare
    from lenet_trt.bench.record import as_json
    from lenet_trt.bench.tables import record_warnings

    # Before anything else: what was measured must be on disk when a comparison is refused.
    written = (
        write_record(name, record, arguments.output, "png" if arguments.png else "svg") if arguments.output else []
    )
    for warning in record_warnings(record):
        print(f"warning: {name}: {warning}", file=sys.stderr)
    if arguments.json:
        print(as_json(record), end="")
    else:
        print(record_text(name, record))
    for path in written:
        print(path, file=sys.stderr if arguments.json else sys.stdout)
    if old is not None:
        comparison = compare(old, record)
        for warning in comparison.warnings:
            print(f"warning: {name}: {warning}", file=sys.stderr)
        said = "\n".join(["", f"{name}, since {old.date}:", *comparison.lines()])
        print(said, file=sys.stderr if arguments.json else sys.stdout)


def record_text(name: str, record: Record) -> str:
    """Return the record as a table, with the suite's summaries, the record's notes and the machine."""
    from lenet_trt.bench.tables import standard_columns, table

    module = suite(name)
    columns = module.columns(record) if hasattr(module, "columns") else standard_columns(record)
    here = record.environment
    packages = here.get("packages", {})
    device = f"{record.gpu}, driver {here.get('driver')}" if record.gpu else f"{here.get('cpu')}, no GPU"
    with_torch = f", torch {packages['torch']}" if "torch" in packages else ""
    facts = f"{name}: {device}{with_torch}, {record.date}, {record.seconds:.0f} s"
    small = [part for each in record_summaries(record) for part in ("", each.text())]
    return "\n".join([table(record.rows, columns), *small, "", *record.notes, facts])


def write_record(name: str, record: Record, folder: Path, form: str = "svg") -> list[Path]:
    """Write the record as JSON, CSV and a picture, and return the paths."""
    from lenet_trt.bench.record import as_json
    from lenet_trt.bench.tables import to_csv
    from lenet_trt.draw.charts import render

    files = {f"{name}.json": as_json(record).encode(), f"{name}.csv": to_csv(record).encode()}
    for path, content in files.items():
        write_atomic(folder / path, content)
    charts = suite(name).charts(record)
    if charts:
        files[f"{name}.{form}"] = render(charts, form)
        write_atomic(folder / f"{name}.{form}", files[f"{name}.{form}"])
    return [folder / path for path in files]


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["bench", *sys.argv[1:]]))
