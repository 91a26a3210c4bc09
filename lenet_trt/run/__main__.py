"""Read the options of ``run``, and print classes, accuracy or throughput."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.batches import Batch, batches, read_names
from lenet_trt.images.classify import classify
from lenet_trt.images.form import Form, Scaling, add_image_arguments, image_options
from lenet_trt.options import whole
from lenet_trt.run.predictions import (
    DEFAULT_TOP,
    SHOWN_CLASSES,
    Classes,
    Csv,
    Json,
    PredictionTable,
    Score,
    predictions,
)
from lenet_trt.run.ray_options import add_ray_arguments, check_no_ray_arguments, ray_command
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.table import CHOICES
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.find_library import add_library_argument

if TYPE_CHECKING:
    from lenet_trt.runtimes.network import Network

DEFAULT_BATCH = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an engine, an ONNX or a fused ONNX file")
    parser.add_argument(
        "images",
        nargs="*",
        metavar="IMAGES",
        help="IDX, PNG, JPEG, .npy or .npz files, folders of pictures, or - (standard input); "
        "none: the MNIST test set that ships with lenet-trt",
    )
    parser.add_argument(
        "--runtime", choices=CHOICES, default="auto", help="the runtime; auto prints the one that it chose"
    )
    parser.add_argument(
        "--labels", metavar="FILE", help="the images' classes: IDX, NumPy, or text with one number per line"
    )
    parser.add_argument(
        "--batch",
        type=whole(),
        metavar="N",
        help=f"images at a time (default: {DEFAULT_BATCH}, or as many as the network takes)",
    )
    parser.add_argument("--names", metavar="FILE", help="text with the names of the network's classes, one per line")
    parser.add_argument(
        "--top",
        type=whole(),
        metavar="K",
        help=f"list the K best classes of each image (default: all; of more than {SHOWN_CLASSES}, {DEFAULT_TOP})",
    )
    add_image_arguments(parser)
    parser.add_argument("--trust", action="store_true", help="run an engine without a matching sidecar")
    add_library_argument(parser)
    parser.add_argument(
        "--throughput", action="store_true", help="measure images/s from host memory, and name what limits it"
    )
    add_ray_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print a line for each image, with all probabilities")


def command(arguments: argparse.Namespace) -> int:
    """Classify the images, here or on Ray, or measure the throughput."""
    if arguments.ray:
        return ray_command(arguments)
    check_no_ray_arguments(arguments)
    network = load(arguments.model, arguments.runtime, trust=arguments.trust, library=arguments.library)
    try:
        given = image_options(arguments)
        form = given.form(network.inputs)
        facts = {"model": str(arguments.model), "runtime": f"{network.runtime}: {network.where}", "why": network.reason}
        if arguments.throughput:
            if not given.scaling.plain:
                raise UsageError("--throughput sends pixels as bytes: leave out --normalize, --mean and --std")
            _throughput(network, arguments, form, facts)
        else:
            batch = network.inputs[0].batch(arguments.batch, DEFAULT_BATCH)
            found = batches(arguments.images, form, batch, arguments.labels)
            _print(network, found, arguments, facts, given.scaling)
    finally:
        network.close()
    return 0


def _print(
    network: Network, found: Iterator[Batch], arguments: argparse.Namespace, facts: dict[str, str], scaling: Scaling
) -> None:
    classes = Classes(read_names(arguments.names) if arguments.names else (), arguments.top)
    # Of the test set, of which nobody named an image, people want the sum.
    table = PredictionTable(summary_alone=not arguments.images, classes=classes)
    form = Json(classes) if arguments.json else Csv(classes) if arguments.csv else table
    score = Score(arguments.top or DEFAULT_TOP)
    begun = False
    for batch in found:
        shares = classify(network, batch.pixels, scaling)
        classes.check(shares.shape[1])
        score.add(batch.labels, shares)
        if not begun:
            _say(form.begin(facts))
            begun = True
        _say(form.rows(predictions(batch.names, batch.labels, shares)))
    if not begun:
        raise LenetTrtError(f"{' '.join(arguments.images)} holds no images")
    _say(form.end(score))


def _say(text: str) -> None:
    if text:
        print(text)


def _throughput(network: Network, arguments: argparse.Namespace, form: Form, facts: dict[str, str]) -> None:
    from lenet_trt.run.throughput import measure_throughput, pixels_of

    measured = measure_throughput(network, pixels_of(arguments.images, form), arguments.batch)
    if arguments.json:
        print(json_text({**facts, **measured.as_dict()}))
    elif arguments.csv:
        raise UsageError("--csv lists images: use --json with --throughput")
    else:
        width = max(map(len, facts))
        _say("\n".join([*(f"{name:<{width}}  {value}" for name, value in facts.items()), "", *measured.lines()]))


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["run", *sys.argv[1:]]))
