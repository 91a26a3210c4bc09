"""Read the options of ``compare``, and print the comparison."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lenet_trt.compare.stage import ComparedEngine, ComparisonRequest, compare_engines
from lenet_trt.errors import UsageError
from lenet_trt.onnx_model.profiles import parse_shapes
from lenet_trt.options import add_sizes, sizes_from_text, whole
from lenet_trt.runtimes.inputs import Sizes
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.find_library import add_library_argument
from lenet_trt.text_table import aligned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("engines", nargs="+", type=Path, metavar="ENGINE", help="engines of one network, two or more")
    parser.add_argument(
        "--model", type=Path, metavar="MODEL", help="the network's ONNX file: compare results with ONNX Runtime's, too"
    )
    parser.add_argument(
        "--batch",
        type=whole(),
        metavar="N",
        help="with --model: size of the first axis of each input where that axis is open (default: 1)",
    )
    add_sizes(parser, "with --model: sizes of open axes by their names")
    parser.add_argument("--shapes", metavar="NAME:1x3x28x28,...", help="whole shapes of inputs, written as for trtexec")
    parser.add_argument("--turns", type=whole(), default=3, metavar="N", help="how often each engine is run")
    parser.add_argument("--iterations", type=whole(), default=200, metavar="K", help="inferences of a turn")
    parser.add_argument("--trust", action="store_true", help="run engines without a matching sidecar")
    add_library_argument(parser)
    parser.add_argument(
        "--trtexec-path", metavar="FILE", help="the trtexec or tensorrt_rtx to run (default: on the PATH)"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Compare, and print a row for each engine."""
    if len(arguments.engines) < 2:
        raise UsageError(f"there is nothing to compare {arguments.engines[0]} with: give two engines or more")
    sizes = sizes_from_text(arguments.sizes)
    if arguments.model is None and (arguments.batch is not None or sizes):
        raise UsageError("--batch and --sizes are of --model: without it give --shapes NAME:32x1x28x28")
    shapes = {} if arguments.shapes is None else parse_shapes("--shapes", arguments.shapes)
    compared = compare_engines(
        ComparisonRequest(
            engines=arguments.engines,
            model=arguments.model,
            sizes=Sizes(arguments.batch, sizes, shapes),
            turns=arguments.turns,
            iterations=arguments.iterations,
            library=arguments.library,
            trust=arguments.trust,
            trtexec=arguments.trtexec_path,
        )
    )
    if arguments.json:
        print(json_text([_facts(each) for each in compared]))
    else:
        print("\n".join(aligned([_HEADS, *map(_cells, compared)], left=(0,))))
    return 0


_HEADS = ("engine", "median", "95% interval", "times as fast", "verdict", "error")


def _cells(engine: ComparedEngine) -> tuple[str, ...]:
    stats = engine.stats
    return (
        str(engine.path),
        f"{stats.median_us:.2f} us",
        f"{stats.low_us:.2f} to {stats.high_us:.2f}",
        f"{engine.times_faster:.3f}",
        engine.verdict or "-",
        "-" if engine.error is None else f"{engine.error:.1e}",
    )


def _facts(engine: ComparedEngine) -> dict[str, object]:
    return {
        "engine": str(engine.path),
        **engine.stats.as_json(),
        "times_faster": round(engine.times_faster, 4),
        "verdict": engine.verdict or None,
        "error": engine.error,
    }


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["compare", *sys.argv[1:]]))
