"""Verb ``verify``: build, run, compare and time every kernel with the TensorRT and the GPU here; write one report."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from lenet_trt.files import write_atomic
from lenet_trt.options import add_batches, batches_of
from lenet_trt.overwrite import add_overwrite, beside, guard, says
from lenet_trt.tensorrt.find_library import add_library_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("verify"), metavar="DIR", help="where verify.md and verify.json go"
    )
    parser.add_argument("--quick", action="store_true", help="few timings and batch sizes, to see that everything runs")
    parser.add_argument("--build-only", action="store_true", help="build every engine, run none: needs no GPU")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="only workloads of bench engines with this in their name (default: LeNet-5 and every kernel)",
    )
    add_batches(parser, "these batch sizes of LeNet-5 (default: 1 to 10000)")
    parser.add_argument(
        "--flavor", choices=("auto", "rtx", "tensorrt"), default="auto", help="TensorRT-RTX or full TensorRT"
    )
    parser.add_argument(
        "--sm", action="append", default=[], metavar="X.Y", help="with --build-only: for this compute capability"
    )
    parser.add_argument("--trtexec-path", metavar="FILE", help="trtexec or tensorrt_rtx (default: found on the PATH)")
    parser.add_argument(
        "--trtexec-flags", nargs="+", default=[], metavar="FLAG", help="further flags of each build, without --"
    )
    add_library_argument(parser)
    parser.add_argument(
        "--headers", type=Path, metavar="DIR", help="folder of NvInfer.h, to make the plugin library from"
    )
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print the record, which is in verify.json too")


def command(arguments: argparse.Namespace) -> int:
    """Verify; print the verdict and the paths of the report and the record, or the record."""
    from lenet_trt.bench.record import as_json
    from lenet_trt.bench.suite import STOPPED, SuiteOptions
    from lenet_trt.verify.report import failures, kernel_verdict, markdown
    from lenet_trt.verify.stage import USUAL, USUAL_QUICK, VerifyRequest, verify

    report, record_path = arguments.output / "verify.md", arguments.output / "verify.json"
    mark = says('"format": "lenet-trt bench"')
    guard({record_path: mark, report: beside(record_path, mark)}, [], arguments.overwrite)
    options = SuiteOptions(
        quick=arguments.quick,
        batches=batches_of(arguments.batch),
        command=shlex.join(arguments.command_line),
        only=tuple(arguments.only) or (USUAL_QUICK if arguments.quick else USUAL),
        trtexec_flags=tuple(f"--{flag}" for flag in arguments.trtexec_flags),
        record=record_path,
    )
    with tempfile.TemporaryDirectory(prefix="lenet-trt-verify-") as folder:
        request = VerifyRequest(
            folder=Path(folder),
            build_only=arguments.build_only,
            flavor=arguments.flavor,
            sms=tuple(arguments.sm),
            library=arguments.library,
            headers=arguments.headers,
            trtexec=arguments.trtexec_path,
        )
        record = verify(request, options)
    write_atomic(record_path, as_json(record).encode())
    write_atomic(report, markdown(record, build_only=arguments.build_only).encode())
    for row in (failed := failures(record, build_only=arguments.build_only)):
        print(f"{row.backend}, {row.where}: {row.why or 'its result is not right'}", file=sys.stderr)
    told = sys.stderr if arguments.json else sys.stdout
    print(kernel_verdict(record, build_only=arguments.build_only), report, record_path, sep="\n", file=told)
    if arguments.json:
        print(as_json(record), end="")
    return 1 if failed or STOPPED in record.details or record.interrupted else 0


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["verify", *sys.argv[1:]]))
