"""The roofline verb: what each node of a model has to do, and how long the hardware would need for it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file, write_atomic
from lenet_trt.floors import Ceilings, arithmetic_us, bound_by, floor_us, memory_us
from lenet_trt.work import Network, NodeWork, network_of

if TYPE_CHECKING:
    import onnx

    from lenet_trt.timeline import Timeline

# In which arithmetic the products of floats are taken to be computed.
FLOATS = ("split", "fp32", "tf32")
_PICTURES = (".svg", ".png")


@dataclass(frozen=True)
class Point:
    """One node, or several that run as one: what the hardware would need, and what it took where that was traced."""

    work: NodeWork
    bound: str
    memory_us: float
    arithmetic_us: float
    needed_us: float
    taken_us: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times what the hardware would need it took."""
        return self.taken_us / self.needed_us if self.taken_us is not None and self.needed_us else None


@dataclass(frozen=True)
class Roofline:
    """The points of a model in graph order. ``as_one`` is the whole model as a single kernel: nothing goes between."""

    model: str
    sizes: Mapping[str, int]
    ceilings: Ceilings
    points: tuple[Point, ...]
    as_one: Point
    end_to_end_us: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def needed_us(self) -> float:
        """The sum of what the nodes need, one after the other, without launches."""
        return sum(point.needed_us for point in self.points)

    @property
    def taken_us(self) -> float | None:
        """The sum of what was traced; None where nothing was."""
        traced = [point.taken_us for point in self.points if point.taken_us is not None]
        return sum(traced) if traced else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "model": self.model,
            "sizes": dict(self.sizes),
            "points": [{**asdict(point), "ratio": point.ratio} for point in self.points],
            "as_one": asdict(self.as_one),
            "needed_us": self.needed_us,
            "taken_us": self.taken_us,
            "end_to_end_us": self.end_to_end_us,
            "ceilings": asdict(self.ceilings),
            "notes": list(self.notes),
        }


def roofline(
    network: Network,
    ceilings: Ceilings,
    *,
    model: str = "",
    sizes: Mapping[str, int] | None = None,
    floats: str = "split",
    timeline: Timeline | None = None,
) -> Roofline:
    """Hold every node against the ceilings; ``floats`` says in which arithmetic products of floats may be computed."""
    notes = [f"{ceilings.gpu}: {note}" for note in ceilings.details.get("notes", ())]
    nodes = network.nodes
    taken: dict[str, float] = {}
    end_to_end_us = None
    if timeline is not None:
        nodes, taken, end_to_end_us, more = _traced(network, ceilings, timeline)
        notes += more
    as_one = network.fused([entry.node for entry in network.nodes], "as one kernel", "all")
    if any(entry.estimated for entry in nodes):
        notes.append(
            "~ marks operations that are an estimate: a function counts as one, an unknown operator by elements"
        )
    return Roofline(
        model,
        dict(sizes or {}),
        ceilings,
        tuple(_point(entry, ceilings, floats, taken.get(entry.node)) for entry in nodes),
        _point(as_one, ceilings, floats, None),
        end_to_end_us,
        tuple(notes),
    )


def _point(entry: NodeWork, ceilings: Ceilings, floats: str, taken_us: float | None) -> Point:
    if entry.arithmetic == "split":
        entry = replace(entry, arithmetic=floats)
    work, arithmetic = entry.work, entry.arithmetic
    idle = work.total_bytes == 0 and work.flops == 0
    return Point(
        entry,
        "-" if idle else bound_by(work, arithmetic, ceilings),
        memory_us(work, ceilings),
        arithmetic_us(work, arithmetic, ceilings),
        floor_us(work, arithmetic, ceilings, launch=False),
        taken_us,
    )


def _traced(
    network: Network, ceilings: Ceilings, timeline: Timeline
) -> tuple[list[NodeWork], dict[str, float], float, list[str]]:
    """The nodes as they ran (several as one, where they did) in graph order, and the mean time in kernels of each."""
    from lenet_trt.ledger import ledger

    account = ledger(timeline, network.nodes, ceilings)
    order = {entry.node: position for position, entry in enumerate(network.nodes)}
    merged: dict[str, NodeWork] = {}
    taken: dict[str, float] = {}
    for row in account.rows:
        inside = sorted((name for name in row.nodes if name in order), key=order.__getitem__)
        if row.node is None or not inside or any(name in merged for name in inside):
            continue
        one = next(entry for entry in network.nodes if entry.node == inside[0])
        entry = one if len(inside) == 1 else network.fused(inside, row.node, " + ".join(row.op.split(" + ")[:3]))
        merged.update(dict.fromkeys(inside, entry))
        taken[entry.node] = row.terms.kernel_us
    nodes = list(dict.fromkeys(merged.get(entry.node, entry) for entry in network.nodes))
    notes = [f"times taken: {timeline.source}, mean of {len(account.used)} inferences, in kernels alone"]
    missing = [entry.node for entry in nodes if entry.node not in taken and entry.work.total_bytes]
    if missing:
        notes.append(f"not in the trace: {', '.join(missing)}")
    return nodes, taken, account.end_to_end_us, notes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX or a fused ONNX file")
    parser.add_argument(
        "--batch", type=int, metavar="N", help="size of the inputs' first axis where it is open (default: 1)"
    )
    parser.add_argument("--sizes", metavar="NAME=N,...", help="sizes of open axes by their names")
    parser.add_argument("--shapes", metavar="NAME:1x3x28x28,...", help="whole shapes of inputs, as trtexec has them")
    parser.add_argument(
        "--datasheet", metavar="GPU", help='hold it against what NVIDIA states for a GPU that is not here: "RTX 4090"'
    )
    parser.add_argument("--refresh", action="store_true", help="measure the GPU that is here again")
    parser.add_argument(
        "--floats",
        choices=FLOATS,
        default="split",
        help="how products of floats may be computed: at float accuracy by multiply-adds or by tensor cores, whichever "
        "is faster (split), by multiply-adds alone, or as tf32",
    )
    parser.add_argument("--timeline", type=Path, metavar="FILE", help="what lenet-trt profile wrote: the times taken")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw it: .svg or .png")
    parser.add_argument("--json", action="store_true", help="print JSON")


def command(arguments: argparse.Namespace) -> int:
    """Print the table, and draw the picture where a file is named."""
    from lenet_trt.roofline_text import lines

    output: Path | None = arguments.output
    if output is not None and output.suffix not in _PICTURES:
        raise UsageError(f"-o {output}: a picture is .svg or .png")
    if arguments.datasheet is not None and arguments.refresh:
        raise UsageError("--refresh measures the GPU that is here, and --datasheet asks for stated figures: give one")
    if arguments.model.suffix != ".onnx":
        raise UsageError(f"{arguments.model}: wanted an ONNX file; of an engine, the one that it is made from")
    from lenet_trt.model import load_model

    model = load_model(arguments.model)
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
    print(json.dumps(found.as_dict(), indent=2) if arguments.json else "\n".join(lines(found)))
    if output is not None:
        from lenet_trt.charts import render
        from lenet_trt.roofline_text import chart

        write_atomic(output, render([chart(found)], output.suffix[1:]))
        print(f"wrote {output}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _timeline(arguments: argparse.Namespace) -> Timeline | None:
    if arguments.timeline is None:
        return None
    from lenet_trt.timeline import load

    timeline = load(arguments.timeline)
    if timeline.model_sha256 and timeline.model_sha256 != sha256_file(arguments.model):
        print(f"warning: {arguments.model} is not the file that was traced (its SHA-256 differs)", file=sys.stderr)
    return timeline


def _sizes(
    model: onnx.ModelProto, arguments: argparse.Namespace, timeline: Timeline | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The shape of each input and the size of each open axis; the trace's where nothing is asked for."""
    from lenet_trt.profiles import parse_shapes
    from lenet_trt.recorders.inputs import shapes_of
    from lenet_trt.recorders.request import Request
    from lenet_trt.runtimes.protocol import ports

    inputs = ports(model)[0]
    given = _parsed_sizes(arguments.sizes) if arguments.sizes else {}
    if timeline is not None and not given and arguments.batch is None and arguments.shapes is None:
        named = {axis for port in inputs for axis in port.axes if isinstance(axis, str)}
        given = {name: size for name, size in timeline.sizes.items() if name in named}
    shapes = parse_shapes("--shapes", arguments.shapes) if arguments.shapes else {}
    request = Request(model=str(arguments.model), batch=arguments.batch, sizes=given, shapes=shapes)
    return shapes_of(inputs, request)


def _parsed_sizes(text: str) -> dict[str, int]:
    sizes = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if not (name and equals and number.isdecimal() and int(number) > 0):
            raise UsageError(f"--sizes {part}: wanted NAME=N with N >= 1, several separated by commas")
        sizes[name] = int(number)
    return sizes


def _ceilings(arguments: argparse.Namespace) -> Ceilings:
    """Of the data sheet that is asked for, else measured on the GPU that is here.

    Raises:
        LenetTrtError: neither is possible; says what to do.
    """
    from lenet_trt.ceilings import datasheet, measured_ceilings
    from lenet_trt.gpu import gpus

    if arguments.datasheet is not None:
        return datasheet(arguments.datasheet)
    if not gpus().devices:
        raise LenetTrtError(
            f"there is no GPU here to measure ({gpus().problem}): name one whose stated figures are to be taken, "
            '--datasheet "RTX 4090", or run it on a machine with one'
        )
    return measured_ceilings(refresh=arguments.refresh)


def _compare_gpus(timeline: Timeline | None, ceilings: Ceilings) -> None:
    from lenet_trt.datasheet import entry_for

    traced = None if timeline is None else timeline.environment.get("gpu")
    if not traced or traced == ceilings.gpu:
        return
    entry = entry_for(str(traced))
    if entry is None or entry.name != ceilings.gpu:
        print(f"warning: the trace is of {traced}, the ceilings are those of {ceilings.gpu}", file=sys.stderr)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["roofline", *sys.argv[1:]]))
