"""Read the options of ``roofline``, and print its table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import check_can_read, write_atomic
from lenet_trt.floors.floor import Ceilings
from lenet_trt.floors.work import network_of
from lenet_trt.options import add_sizes, sizes_from_text
from lenet_trt.overwrite import add_overwrite, guard, says
from lenet_trt.schema import json_text

if TYPE_CHECKING:
    import onnx

    from lenet_trt.trace.timeline import Timeline
from lenet_trt.roofline.stage import FLOATS, roofline

_PICTURES = (".svg", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX or a fused ONNX file")
    parser.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="size of the first axis of each input where that axis is open (default: 1)",
    )
    add_sizes(parser, "sizes of open axes by their names")
    parser.add_argument("--shapes", metavar="NAME:1x3x28x28,...", help="whole shapes of inputs, written as for trtexec")
    parser.add_argument(
        "--datasheet", metavar="GPU", help='compare with the data sheet of a GPU that is not present: "RTX 4090"'
    )
    parser.add_argument("--refresh", action="store_true", help="measure this machine's GPU again")
    parser.add_argument(
        "--floats",
        choices=FLOATS,
        default="split",
        help="how products of floats may be computed: with float accuracy by multiply-adds or tensor cores, whichever "
        "is faster (split), by multiply-adds only (fp32), or as tf32",
    )
    parser.add_argument(
        "--timeline", type=Path, metavar="FILE", help="a timeline of lenet-trt profile, for the measured times"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a picture: .svg or .png")
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def command(arguments: argparse.Namespace) -> int:
    """Print the table, and draw the picture if a file is named."""
    from lenet_trt.roofline.text import roofline_lines

    output: Path | None = arguments.output
    if output is not None and output.suffix not in _PICTURES:
        raise UsageError(f"-o {output}: a picture is .svg or .png")
    if arguments.datasheet is not None and arguments.refresh:
        raise UsageError(
            "--refresh measures this machine's GPU, and --datasheet uses the figures of a data sheet: give one of them"
        )
    from lenet_trt.onnx_model.plugin_nodes import refuse_copy
    from lenet_trt.onnx_model.read import WANTED_MODEL, load_model, model_files

    check_can_read(arguments.model, WANTED_MODEL)
    if arguments.model.suffix != ".onnx":
        raise UsageError(
            f"{arguments.model}: wanted an ONNX file; for an engine, give the model from which it was built"
        )
    model = load_model(arguments.model)
    refuse_copy(model, str(arguments.model))
    if output is not None:
        from lenet_trt.draw.charts import MARK

        guard({output: says(MARK)}, [*model_files(arguments.model), arguments.timeline], arguments.overwrite)
    timeline = _timeline(arguments)
    shapes, sizes = _sizes(model, arguments, timeline)
    ceilings = _ceilings(arguments)
    _compare_gpus(timeline, ceilings)
    found = roofline(
        network_of(model, sizes, shapes),
        ceilings,
        model=str(arguments.model),
        sizes=sizes,
        floats=arguments.floats,
        timeline=timeline,
    )
    print(json_text(found.as_dict()) if arguments.json else "\n".join(roofline_lines(found)))
    if output is not None:
        from lenet_trt.draw.charts import render
        from lenet_trt.roofline.text import chart

        write_atomic(output, render([chart(found)], output.suffix[1:]))
        print(f"wrote {output}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _timeline(arguments: argparse.Namespace) -> Timeline | None:
    if arguments.timeline is None:
        return None
    from lenet_trt.trace.timeline import load_timeline
    from lenet_trt.trace.traced_model import warning

    timeline = load_timeline(arguments.timeline)
    if said := warning(timeline, arguments.model):
        print(said, file=sys.stderr)
    return timeline


def _sizes(
    model: onnx.ModelProto, arguments: argparse.Namespace, timeline: Timeline | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the shape of each input and the size of each open axis; by default those of the trace."""
    from lenet_trt.onnx_model.ports import ports
    from lenet_trt.onnx_model.profiles import parse_shapes
    from lenet_trt.runtimes.inputs import Sizes, shapes_of

    inputs = ports(model)[0]
    given = sizes_from_text(arguments.sizes)
    if timeline is not None and not given and arguments.batch is None and arguments.shapes is None:
        named = {axis for port in inputs for axis in port.axes if isinstance(axis, str)}
        given = {name: size for name, size in timeline.sizes.items() if name in named}
    shapes = parse_shapes("--shapes", arguments.shapes) if arguments.shapes else {}
    return shapes_of(inputs, Sizes(arguments.batch, given, shapes))


def _ceilings(arguments: argparse.Namespace) -> Ceilings:
    """Return the ceilings of the named data sheet, else those measured on the GPU of this machine.

    Raises:
        LenetTrtError: neither is possible; the message says what to do.
    """
    from lenet_trt.cuda.gpus import gpus
    from lenet_trt.floors.ceilings import datasheet, measured_ceilings

    if arguments.datasheet is not None:
        return datasheet(arguments.datasheet)
    if not gpus().devices:
        raise LenetTrtError(
            f"there is no GPU here to measure ({gpus().problem}): name a GPU whose data sheet to use, "
            '--datasheet "RTX 4090", or run this on a machine with a GPU'
        )
    return measured_ceilings(refresh=arguments.refresh)


def _compare_gpus(timeline: Timeline | None, ceilings: Ceilings) -> None:
    from lenet_trt.floors.datasheet import entry_for

    traced = None if timeline is None else timeline.environment.get("gpu")
    if not traced or traced == ceilings.gpu:
        return
    entry = entry_for(str(traced))
    if entry is None or entry.name != ceilings.gpu:
        print(f"warning: the trace is of {traced}, the ceilings are of {ceilings.gpu}", file=sys.stderr)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["roofline", *sys.argv[1:]]))
