"""Read the options of ``build``, and print what was built."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from lenet_trt.build.request import add_request_arguments, request_from
from lenet_trt.build.stage import Built, build
from lenet_trt.cuda.gpus import first_gpu
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.flavors import select
from lenet_trt.tensorrt.sidecar import Sidecar
from lenet_trt.tensorrt.summary import engine_rows, label_table, next_commands
from lenet_trt.tensorrt.vouch import gpu_obstacle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    add_request_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the sidecar")


def command(arguments: argparse.Namespace) -> int:
    """Build the engine that the command line asks for and print a report."""
    request = request_from(arguments)
    built = build(request, progress=sys.stderr.isatty(), command=arguments.command_line)
    library = arguments.library if built.sidecar.library is not None else None
    if arguments.json:
        print(json_text({"path": str(built.engine), "reused": built.reused, **asdict(built.sidecar)}))
    else:
        print(build_report(built, library))
    if (note := _here(built.sidecar)) is not None:
        print(note, file=sys.stderr)
    return 0


def _here(sidecar: Sidecar) -> str | None:
    """Return a note where the engine is not for this machine's GPU, else None."""
    gpu, flavor = first_gpu(), select(sidecar.inputs["flavor"])
    obstacle = None if gpu is None else gpu_obstacle(sidecar, flavor, gpu)
    return None if obstacle is None else f"note: {obstacle}"


def build_report(built: Built, library: Path | None = None) -> str:
    """Return a report for people: the files, the target GPUs, the accuracy and the next command."""
    rows = engine_rows(built.engine, built.sidecar)
    if built.reused:
        rows.insert(0, ("up to date", "made from the same inputs before; nothing to do (--force builds again)"))
    rows += [
        ("next" if index == 0 else "", line)
        for index, line in enumerate(next_commands(built.engine, built.sidecar, library))
    ]
    return label_table(rows)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["build", *sys.argv[1:]]))
