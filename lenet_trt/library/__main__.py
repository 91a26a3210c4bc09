"""Verb ``library``: compile the C++ plugin library that runs our kernels in TensorRT."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from lenet_trt.overwrite import add_overwrite, guard
from lenet_trt.tensorrt.library.compile import (
    COMPILERS,
    DEFAULT_NAME,
    compile_library,
    find_headers,
    options_from_environment,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of the verb."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(DEFAULT_NAME), metavar="FILE", help="where to write the library"
    )
    parser.add_argument(
        "--headers",
        type=Path,
        metavar="DIR",
        help="folder of NvInfer.h of the TensorRT that will load the library (default: the installed one)",
    )
    parser.add_argument(
        "--cuda", type=Path, metavar="DIR", help="folder of cuda_runtime_api.h (default: of NVIDIA's pip packages)"
    )
    parser.add_argument(
        "--target",
        choices=tuple(COMPILERS),
        help="make the library for machines with this processor (default: as this one); aarch64: Jetson, ARM servers",
    )
    parser.add_argument(
        "--compiler",
        metavar="NAME",
        help="the C++ compiler, to which $CXXFLAGS go (default: the target's, or $CXX, or g++)",
    )
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print what was made as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Compile the library; print its path."""
    guard({arguments.output: _made_by_library}, [], arguments.overwrite)
    headers = find_headers(arguments.headers)
    print(f"compiling for TensorRT {headers.version_text} ({headers.folder})", file=sys.stderr)
    options = options_from_environment()
    compiler = arguments.compiler or COMPILERS.get(arguments.target) or os.environ.get("CXX") or "g++"
    compile_library(arguments.output, headers, compiler=compiler, options=options, cuda=arguments.cuda)
    if arguments.json:
        print(json.dumps({"library": str(arguments.output), "tensorrt": headers.version_text}))
    else:
        print(arguments.output)
    return 0


def _made_by_library(path: Path) -> bool:
    """Recognise a shared library that contains our plugin's names."""
    data = path.read_bytes()
    return data.startswith(b"\x7fELF") and b"lenet_trt" in data


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["library", *sys.argv[1:]]))
