"""Read the options of ``export``: write LeNet-5, the MatMul case or the Conv case as ONNX."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lenet_trt.errors import UsageError
from lenet_trt.export.cases import ACTIVATIONS, MATMUL_DIMS, ConvCase, MatMulCase, conv_onnx, matmul_onnx
from lenet_trt.export.lenet5 import lenet5_onnx
from lenet_trt.export.onnx_file import made_by_export
from lenet_trt.export.weights import WEIGHTS
from lenet_trt.files import report_stream
from lenet_trt.options import whole
from lenet_trt.overwrite import add_overwrite, guard
from lenet_trt.schema import json_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the models that can be written, and the options of each."""
    models = parser.add_subparsers(dest="model", metavar="MODEL", required=True)

    lenet5 = _add_model(models, "lenet5", "LeNet-5 with its trained weights", _lenet5)
    lenet5.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        default=WEIGHTS,
        help="safetensors file that `lenet-trt train` wrote (default: the shipped weights)",
    )
    choice = lenet5.add_mutually_exclusive_group()
    choice.add_argument("--fresh", action="store_true", help="export with torch, and fail where torch cannot")
    choice.add_argument("--shipped", action="store_true", help="use the shipped graph instead of torch")

    dims = ",".join(map(str, MATMUL_DIMS))
    matmul = _add_model(
        models,
        "matmul",
        "a batched matrix-vector product: a [d0,d1,d2,d3,d4] x b [d0,1,d2,d4,1] -> c [d0,d1,d2,d3,1]",
        _matmul,
    )
    matmul.add_argument(
        "--dims",
        type=_dims,
        metavar="D0,D1,D2,D3,D4",
        default=MATMUL_DIMS,
        help=f"sizes of the product [D0,D1,D2,D3,D4] x [D0,1,D2,D4,1] (default: {dims})",
    )
    matmul.add_argument("--dynamic", action="store_true", help="make d0 a dynamic axis, n")

    conv = _add_model(models, "conv", "a convolution layer on images [batch,1,28,28], with seeded weights", _conv)
    conv.add_argument("--batch", type=whole(), default=10_000, help="number of images (default: 10000)")
    conv.add_argument("--dynamic", action="store_true", help="make the batch a dynamic axis, n")
    conv.add_argument("--filters", type=whole(), default=50, help="output channels (default: 50)")
    conv.add_argument("--kernel", type=whole(), default=5, help="height and width (default: 5)")
    conv.add_argument(
        "--activation",
        choices=list(ACTIVATIONS),
        default="none",
        help="the activation after the convolution (default: none)",
    )
    conv.add_argument("--pool", action="store_true", help="add a 2x2 max-pool")
    conv.add_argument("--seed", type=whole(0, 2**63 - 1), default=0, help="seed of the weights (default: 0)")


def command(args: argparse.Namespace) -> int:
    """Write the chosen model and say what it is."""
    path = args.output or Path(f"{args.model}.onnx")
    if path.is_dir():
        raise UsageError(f"-o is {path}, a folder; wanted a file name in it")
    guard({path: made_by_export}, [getattr(args, "weights", None)], args.overwrite)
    told = report_stream(path)
    about: dict[str, Any] = args.write(args, path)
    if args.json:
        print(json_text({"written": [str(path)], "model": args.model, **about}), file=told)
        return 0
    if "reason" in about:
        print(f"{args.model}: {about['source']} ({about['reason']})", file=told)
    print(path, file=told)
    return 0


def _lenet5(args: argparse.Namespace, path: Path) -> dict[str, Any]:
    fresh = True if args.fresh else False if args.shipped else None
    return dict(lenet5_onnx(path, weights=args.weights, fresh=fresh).as_dict())


def _matmul(args: argparse.Namespace, path: Path) -> dict[str, Any]:
    case = MatMulCase(dims=args.dims, dynamic=args.dynamic)
    return {"onnx_sha256": matmul_onnx(path, case), "case": asdict(case)}


def _conv(args: argparse.Namespace, path: Path) -> dict[str, Any]:
    case = ConvCase(
        batch=None if args.dynamic else args.batch,
        filters=args.filters,
        kernel=args.kernel,
        activation=args.activation,
        pool=args.pool,
        seed=args.seed,
    )
    return {"onnx_sha256": conv_onnx(path, case), "case": asdict(case)}


def _dims(text: str) -> tuple[int, ...]:
    dims = tuple(map(whole(), text.split(",")))
    if len(dims) != len(MATMUL_DIMS):
        raise argparse.ArgumentTypeError(f"{text!r} is not five numbers with commas between them")
    return dims


def _add_model(
    models: Any, name: str, summary: str, write: Callable[[argparse.Namespace, Path], dict[str, Any]]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = models.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"the file to write (default: {name}.onnx)")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_overwrite(parser)
    parser.set_defaults(write=write)
    return parser


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["export", *sys.argv[1:]]))
