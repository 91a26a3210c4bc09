"""Read the options of ``quantize``, and print what was quantized and what it costs."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict

from lenet_trt.quantize.request import add_quantize_arguments, quantize_request_from
from lenet_trt.quantize.stage import Quantized, quantize
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.summary import accuracy_text, label_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    add_quantize_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the record")


def command(arguments: argparse.Namespace) -> int:
    """Quantize the model that the command line names, and print a report."""
    request = quantize_request_from(arguments)
    found = quantize(request, progress=sys.stderr.isatty(), command=arguments.command_line)
    if arguments.json:
        print(json_text({"path": str(found.model), "reused": found.reused, **asdict(found.record)}))
    else:
        print(report(found))
    return 0


def report(found: Quantized) -> str:
    """Return a report for people: the file, the layers, the accuracy and the next command."""
    record = found.record
    narrow, rest = record.inputs["narrow"], record.inputs["rest"]
    rows = [("model", str(found.model))]
    if found.reused:
        rows.insert(0, ("up to date", "made from the same inputs before; nothing to do"))
    done = [layer.node for layer in record.layers if layer.largest is not None]
    rows.append(("quantized", f"{', '.join(done)}: {narrow}, symmetric, weights with a scale a channel"))
    if record.kept:
        rows.append(("left", f"{', '.join(record.kept)}: {rest}"))
    data = record.calibration
    change = f"{data.change:.2f}% of them get another class"
    if not data.classes:
        change = f"the results change by {data.change:.2f}% in norm"
    rows.append(("calibrated", f"with {data.samples:,} samples of {data.source}; {change}"))
    rows.append(("accuracy", accuracy_text(record.evaluation)))
    target = " --sm 8.9" if narrow == "fp8" else ""
    rows.append(("next", f"lenet-trt build {shlex.quote(str(found.model))}{target}"))
    return label_table(rows)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["quantize", *sys.argv[1:]]))
