"""Verb ``deploy``: write what a server needs of a network."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from lenet_trt.deploy.triton import BACKENDS, TritonOptions, deploy
from lenet_trt.errors import UsageError
from lenet_trt.options import read_whole, whole
from lenet_trt.overwrite import add_overwrite
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.find_library import add_library_argument

SERVERS = ("triton",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("server", choices=SERVERS, help="triton: a model repository of Triton Inference Server")
    parser.add_argument("model", type=Path, metavar="MODEL", help="an engine, or for --backend python an ONNX file too")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the model repository; other models in it stay"
    )
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="tensorrt",
        help="tensorrt runs the engine on a GPU; python runs the ONNX on any server, by ONNX Runtime",
    )
    parser.add_argument("--name", metavar="NAME", help="the model's name in Triton (default: of the file)")
    parser.add_argument("--version", type=whole(), default=1, metavar="N", help="the version of the model to write")
    parser.add_argument(
        "--max-batch",
        type=whole(),
        metavar="N",
        help="the largest batch (default: of the engine; 256 for an ONNX file)",
    )
    parser.add_argument(
        "--queue-delay-us",
        type=whole(low=0),
        default=100,
        metavar="US",
        help="how long a request waits for others that make a batch with it",
    )
    parser.add_argument(
        "--instances", type=whole(), default=1, metavar="N", help="instances on each GPU, or on the CPU"
    )
    parser.add_argument(
        "--gpus", metavar="0,1", help="GPUs that have the model (default: all; with --backend python: the CPU)"
    )
    parser.add_argument("--warm-up", action="store_true", help="run batches of zeros before the first request")
    parser.add_argument("--threads", type=whole(), metavar="N", help="processor cores of an instance of ONNX Runtime")
    parser.add_argument(
        "--onnx", type=Path, metavar="FILE.onnx", help="the ONNX that an engine without a sidecar was built from"
    )
    add_library_argument(parser)
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def command(arguments: argparse.Namespace) -> int:
    """Write the repository, and print how the server is started."""
    options = TritonOptions(
        name=arguments.name,
        version=arguments.version,
        max_batch=arguments.max_batch,
        queue_delay_us=arguments.queue_delay_us,
        instances=arguments.instances,
        gpus=_gpus(arguments.gpus),
        warm_up=arguments.warm_up,
        threads=arguments.threads,
    )
    done = deploy(
        arguments.model,
        arguments.output,
        arguments.backend,
        options,
        library=arguments.library,
        shapes=arguments.onnx,
        overwrite=arguments.overwrite,
    )
    if arguments.json:
        print(json_text(asdict(done), default=str))
        return 0
    for path in done.files:
        print(f"wrote   {path}")
    print(f"start   {done.command}")
    print(f"        {done.in_container}")
    if done.tensorrt is not None:
        print(f"needs   a server with TensorRT {done.tensorrt}, which built the engine (IMAGE: one whose notes say so)")
    elif arguments.backend == "python":
        print("needs   onnxruntime and numpy in the Python of the server: pip install onnxruntime numpy")
    print(f"ask     curl localhost:8000/v2/models/{done.name}/config")
    return 0


def _gpus(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(read_whole(part, 0, 1023) for part in text.split(","))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--gpus {text}: {error}; wanted numbers of GPUs, such as 0,1") from None


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["deploy", *sys.argv[1:]]))
