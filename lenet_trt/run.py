"""The run verb, and ``load``: any engine, ONNX or fused ONNX file as a Python function, on whatever runs it here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file
from lenet_trt.gpu import gpus
from lenet_trt.images import Batch, batches
from lenet_trt.predictions import Csv, Json, Score, Table, predictions, probabilities

if TYPE_CHECKING:
    from lenet_trt.image_files import Size
    from lenet_trt.runtimes.network import Network
    from lenet_trt.sidecar import Sidecar

RUNTIMES = ("auto", "tensorrt", "graph", "ort", "ort-cpu")
DEFAULT_BATCH = 256


def load(path: Path | str, runtime: str = "auto", *, trust: bool = False) -> Network:
    """Load an engine, an ONNX or a fused ONNX file; call what comes back: ``load(path)(batch)``.

    ``runtime``: "tensorrt" (an engine), "graph" (torch and our kernels in a CUDA graph), "ort" (ONNX Runtime, on the
    GPU where its package can), "ort-cpu", or "auto": the first of these that works here; ``network.reason`` says why.
    An engine is run from the ONNX that it was built from where TensorRT cannot run it. ``trust`` takes an engine that
    no sidecar vouches for: an engine can contain code.

    Raises:
        UsageError: an unknown runtime, or one that is not for this file.
        LenetTrtError: the file is damaged or not vouched for, or the runtime cannot run it here.
    """
    path = Path(path)
    if runtime not in RUNTIMES:
        raise UsageError(f"--runtime {runtime}: wanted one of {', '.join(RUNTIMES)}")
    if path.suffix == ".onnx":
        if runtime == "tensorrt":
            raise UsageError(f"{path} is no engine: build one with lenet-trt build {path}, or take another runtime")
        return _from_onnx(path, runtime, "")
    return _from_engine(path, runtime, trust)


def _from_engine(path: Path, runtime: str, trust: bool) -> Network:
    from lenet_trt.vouch import flavor_of, obstacle, vouched

    try:
        sidecar = vouched(path)
    except LenetTrtError as error:
        if not path.is_file() or not trust:
            advice = (
                "; an engine can contain code, so it is run only with --trust (trust=True)" if path.is_file() else ""
            )
            raise LenetTrtError(f"{error}{advice}") from error
        if runtime not in ("auto", "tensorrt"):
            raise UsageError(f"--trust runs the engine itself, with --runtime tensorrt, not {runtime}") from error
        return _tensorrt(path, None)
    if runtime == "tensorrt":
        return _tensorrt(path, sidecar)
    beside = f"the ONNX that {path.name} was built from"
    if runtime != "auto":
        return _from_onnx(_built_from(path, sidecar), runtime, beside)
    try:
        reason = obstacle(sidecar, flavor_of(sidecar))
    except LenetTrtError as error:
        reason = str(error)
    if reason is None:
        return _tensorrt(path, sidecar)
    return _from_onnx(_built_from(path, sidecar), runtime, f"{beside}, since the engine does not run here ({reason})")


def _built_from(engine: Path, sidecar: Sidecar) -> Path:
    onnx = engine.with_name(sidecar.onnx.name)
    if not onnx.is_file() or sha256_file(onnx) != sidecar.onnx.sha256:
        raise LenetTrtError(
            f"{engine} cannot run here, and {onnx}, which it was built from, is missing or was changed: "
            "build it again with --force"
        )
    return onnx


def _tensorrt(path: Path, sidecar: Sidecar | None) -> Network:
    from lenet_trt.runtimes.network import Network
    from lenet_trt.runtimes.tensorrt import TensorRt

    why = "it is an engine, and its sidecar vouches for it" if sidecar else "it is an engine, and it was trusted"
    return Network(TensorRt(path, sidecar), why)


def _from_onnx(path: Path, runtime: str, note: str) -> Network:
    """Try the runtimes in order; what is not taken leaves its reason."""
    from lenet_trt.model import load_model
    from lenet_trt.runtimes.network import Network

    model = load_model(path)
    passed_over = []
    for name, why in _candidates(runtime):
        try:
            found = Network(_make(name, model), why)
        except LenetTrtError as error:
            if runtime not in ("auto", "ort") or name == "ort-cpu":
                raise
            passed_over.append(f"{'graph' if name == 'graph' else 'ort on the GPU'} cannot ({error})")
            continue
        # The note of an engine says it already when there is no GPU.
        reasons = (note, why, *passed_over) if why not in note else (note, *passed_over)
        found.reason = "; ".join(filter(None, reasons))
        return found
    raise AssertionError("ort-cpu is always a candidate of auto")


def _candidates(runtime: str) -> Iterator[tuple[str, str]]:
    from lenet_trt.runtimes.ort import has_cuda

    if runtime not in ("auto", "ort"):
        yield runtime, "asked for"
        return
    gpu = bool(gpus().devices)
    if runtime == "auto" and gpu:
        yield "graph", "there is a CUDA GPU"
    if gpu and has_cuda():
        yield "ort-cuda", "there is a CUDA GPU, and ONNX Runtime has its provider"
    yield "ort-cpu", f"there is no GPU: {gpus().problem}" if not gpu else "ONNX Runtime has no CUDA provider"


def _make(name: str, model: Any) -> Any:
    if name == "graph":
        from lenet_trt.runtimes.graph import GraphRuntime

        return GraphRuntime(model)
    from lenet_trt.runtimes import ort

    return ort.OrtCuda(model) if name == "ort-cuda" else ort.OrtCpu(model)


def image_size(network: Network) -> Size:
    """The (height, width) of the grey images that a network takes.

    Raises:
        UsageError: it takes no grey images.
    """
    axes = network.inputs[0].axes if len(network.inputs) == 1 and network.inputs[0].takes_images() else ()
    if len(axes) == 4 and axes[1] == 1 and isinstance(axes[2], int) and isinstance(axes[3], int):
        return axes[2], axes[3]
    seen = ", ".join(f"{port.name} {port.dtype} [{', '.join(map(str, port.axes))}]" for port in network.inputs)
    raise UsageError(
        f"the network takes {seen}; images go into [n, 1, height, width]. "
        "In Python, lenet_trt.run.load(path)(arrays) runs any network"
    )


def classify(network: Network, batch: Batch) -> NDArray[np.float64]:
    """Class probabilities of a batch; one that is smaller than a network of fixed size takes is filled up.

    Shapes: [n, classes].
    """
    fixed = network.inputs[0].axes[0]
    pixels = batch.pixels[:, None]
    if isinstance(fixed, int) and len(pixels) < fixed:
        padding = np.zeros((fixed - len(pixels), *pixels.shape[1:]), np.uint8)
        output = network(np.concatenate([pixels, padding]))[: len(pixels)]
    else:
        output = network(pixels)
    output = output[0] if isinstance(output, tuple) else output
    return probabilities(np.asarray(output), len(pixels))


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
    parser.add_argument("--runtime", choices=RUNTIMES, default="auto", help="what runs it; auto says what it took")
    parser.add_argument("--labels", metavar="FILE", help="the images' classes: IDX, NumPy, or a number a line")
    parser.add_argument(
        "--batch", type=int, metavar="N", help=f"images at a time (default: {DEFAULT_BATCH}, or what the network has)"
    )
    parser.add_argument("--trust", action="store_true", help="run an engine that no sidecar vouches for")
    parser.add_argument(
        "--throughput", action="store_true", help="measure images/s from host memory, and name what limits it"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print a line for each image, with all probabilities")


def command(arguments: argparse.Namespace) -> int:
    """Classify the images, or measure how fast that goes."""
    if arguments.batch is not None and arguments.batch < 1:
        raise UsageError(f"--batch {arguments.batch}: wanted at least 1")
    network = load(arguments.model, arguments.runtime, trust=arguments.trust)
    try:
        size = image_size(network)
        facts = {"model": str(arguments.model), "runtime": f"{network.runtime}: {network.where}", "why": network.reason}
        if arguments.throughput:
            _throughput(network, arguments, size, facts)
        else:
            fixed = network.inputs[0].axes[0]
            batch = fixed if isinstance(fixed, int) else arguments.batch or DEFAULT_BATCH
            _print(network, batches(arguments.images, size, batch, arguments.labels), arguments, facts)
    finally:
        network.close()
    return 0


def _print(network: Network, found: Iterator[Batch], arguments: argparse.Namespace, facts: dict[str, str]) -> None:
    # Of the test set, of which nobody named an image, people want the sum.
    form = Json() if arguments.json else Csv() if arguments.csv else Table(summary_alone=not arguments.images)
    score = Score()
    begun = False
    for batch in found:
        shares = classify(network, batch)
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


def _throughput(network: Network, arguments: argparse.Namespace, size: Size, facts: dict[str, str]) -> None:
    from lenet_trt.throughput import measure, pixels_of

    measured = measure(network, pixels_of(arguments.images, size), arguments.batch)
    if arguments.json:
        print(json.dumps({**facts, **measured.as_dict()}, indent=2))
    elif arguments.csv:
        raise UsageError("--csv lists images; with --throughput take --json")
    else:
        width = max(map(len, facts))
        _say("\n".join([*(f"{name:<{width}}  {value}" for name, value in facts.items()), "", *measured.lines()]))


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["run", *sys.argv[1:]]))
