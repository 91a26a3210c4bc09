"""Read the options of ``tune``, and print what it found."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.machine import machine_of, tuning_folder
from lenet_trt.cuda.tuning_file import Tuning, read_tuning
from lenet_trt.cuda.tuning_record import (
    SUITE,
    TuneRecord,
    read_tuning_record,
    tuning_record_of,
    tuning_record_text,
    write_tuning_record,
)
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import report_stream
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.registry import kernels
from lenet_trt.options import add_batches, add_sizes, batches_of, number, sizes_from_text
from lenet_trt.overwrite import add_overwrite, guard, says
from lenet_trt.tune.tables import calls_table, differences_table, summary_table

_SECONDS = 120.0
_SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("names", nargs="*", metavar="KERNEL", help="these kernels (default: all; plugins lists them)")
    parser.add_argument(
        "--model",
        type=Path,
        metavar="MODEL",
        help="time the sizes that the kernels have in this ONNX file, fused or not, instead of their declared examples",
    )
    add_batches(parser, "with --model: sizes of its open batch axis (default: 1 32)")
    add_sizes(parser, "with --model: sizes of its other open axes by their names")
    parser.add_argument(
        "--seconds",
        type=number(0),
        default=_SECONDS,
        metavar="S",
        help="stop after about this time; the largest examples of each kernel come first. 0: time everything",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="print the choices that are kept for the GPU here, or, where there is none, for every GPU",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("ONE", "OTHER"),
        help="print where two records of -o, of two GPUs, want different variants; nothing is timed",
    )
    parser.add_argument("--forget", action="store_true", help="delete the choices that are kept, of all GPUs")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the choices and times as JSON")
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print the choices and times as JSON instead of tables")


def command(arguments: argparse.Namespace) -> int:
    """Tune, list or forget; the status is 1 if some calls could not be timed."""
    if arguments.list and arguments.forget:
        raise UsageError("--list prints the choices and --forget deletes them: give one of the two")
    for option, given in (("--batch", arguments.batch), ("--sizes", arguments.sizes)):
        if given is not None and arguments.model is None:
            raise UsageError(f"{option} gives sizes to a model: add --model MODEL, or leave {option} out")
    if arguments.model is not None and (arguments.list or arguments.forget):
        raise UsageError("--model is timed, and --list and --forget time nothing: leave --model out")
    chosen = [kernel_named(name) for name in arguments.names] or list(kernels().values())
    if arguments.compare is not None:
        one, other = (read_tuning_record(path).tunings for path in arguments.compare)
        print("\n".join(differences_table(one, other)))
        return 0
    if arguments.forget:
        return _forget(chosen if arguments.names else None)
    if not gpus().devices and not arguments.list:
        raise LenetTrtError(f"a choice is for the GPU here, and there is none ({gpus().problem}): tune where it runs")
    if arguments.output is not None:
        guard({arguments.output: says(f'"suite": "{SUITE}"')}, (arguments.model,), arguments.overwrite)
    typed = shlex.join(arguments.command_line)
    calls = None
    if arguments.model is not None:
        from lenet_trt.tune.model_calls import model_calls

        calls = model_calls(arguments.model, batches_of(arguments.batch), sizes_from_text(arguments.sizes))
        chosen = [kernel for kernel in chosen if kernel.name in calls]
        if not chosen:
            raise UsageError(f"{arguments.model} has the kernels {', '.join(calls)}, and none of those that are named")
    record = _kept(typed, chosen) if arguments.list else _tuned(typed, chosen, arguments.seconds or None, calls)
    told = report_stream(arguments.output)
    if arguments.output is not None:
        write_tuning_record(arguments.output, record)
    if arguments.json:
        print(tuning_record_text(record), end="", file=told)
    else:
        print(_text(record), file=told)
        if arguments.output is not None:
            print(arguments.output, file=told)
    return int(bool(record.problems))


def _tuned(
    typed: str, chosen: Sequence[Kernel], seconds: float | None, calls: Mapping[str, Sequence[Bound]] | None
) -> TuneRecord:
    from lenet_trt.tune.stage import tune

    found = tune(chosen, seconds, lambda text: print(text, file=sys.stderr, flush=True), calls)
    if found.timed < found.ladders:
        print(
            f"{found.timed} of {found.ladders} ladders of sizes were timed in {found.seconds:.0f} s; --seconds 0 times "
            "all",
            file=sys.stderr,
        )
    for problem in found.problems:
        print(f"not timed: {problem}", file=sys.stderr)
    return tuning_record_of(typed, found.tunings, found.ladders, found.timed, found.seconds, found.problems)


def _kept(typed: str, chosen: Sequence[Kernel]) -> TuneRecord:
    """Return what is kept for the GPU here, or where there is none for every GPU; what does not count is told of."""
    machine, found, problems = machine_of(), list[Tuning](), list[str]()
    if machine is None:
        print(f"there is no GPU here ({gpus().problem}): these choices are kept for other GPUs", file=sys.stderr)
    for kernel in chosen:
        kept = tuning_folder().glob(f"*/{kernel.name}.json") if machine is None else [machine.tuning_path(kernel.name)]
        for path in sorted(path for path in kept if path.is_file()):
            try:
                found.append(read_tuning(path, kernel, machine))
            except LenetTrtError as error:
                problems.append(str(error))
                print(f"does not count: {error}", file=sys.stderr)
    return tuning_record_of(typed, found, 0, 0, 0.0, problems)


def _forget(chosen: Sequence[Kernel] | None) -> int:
    """Delete the files of these kernels (None: all), and say which."""
    names = ["*"] if chosen is None else [kernel.name for kernel in chosen]
    paths = sorted(path for name in names for path in tuning_folder().glob(f"*/{name}.json"))
    for path in paths:
        path.unlink(missing_ok=True)
        print(path)
    print(f"{len(paths)} forgotten: the declared choices hold", file=sys.stderr)
    return 0


def _text(record: TuneRecord) -> str:
    if not record.tunings:
        return "nothing is kept: the declared choices hold"
    of: dict[str, list[Tuning]] = {}
    for tuning in record.tunings:
        of.setdefault(f"{tuning.machine}, lenet-trt {tuning.lenet_trt}", []).append(tuning)
    return "\n\n".join("\n".join([f"{machine}:", "", *_tables(tunings)]) for machine, tunings in of.items())


def _tables(tunings: Sequence[Tuning]) -> list[str]:
    if any(tuning.choices for tuning in tunings):
        return [*summary_table(tunings), "", *calls_table(tunings, _SHOWN)]
    nothing = "no variant was faster than the declared one beyond the noise: the declared choices hold"
    return [*summary_table(tunings), "", nothing]


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["tune", *sys.argv[1:]]))
