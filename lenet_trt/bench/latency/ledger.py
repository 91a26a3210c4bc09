"""Account for one request of the latency path, from array to array: each part timed by the host's clock."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.timing import no_collection
from lenet_trt.export.geometry import IMAGE_SHAPE
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import axes
from lenet_trt.kernel.tensors import Axis, Tensor, Types
from lenet_trt.kernel.variants import Launch, Variant
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.latency.exchange import Exchange
from lenet_trt.runtimes.latency.path import LatencyPath, one_launch
from lenet_trt.runtimes.latency.resident import open_resident
from lenet_trt.runtimes.latency.single import SingleKernel

(n,) = axes("n")
_REQUESTS = 3_000
_ANSWERS = 10


def _signal(x: NDArray[Any]) -> NDArray[Any]:
    return np.arange(_ANSWERS, dtype=np.float64)


def _read(x: NDArray[Any]) -> NDArray[Any]:
    return np.arange(_ANSWERS) + float((x > 0.5).any())


PROBES = tuple(
    Kernel(
        name=f"latency_{name}",
        doc=doc,
        axes=(Axis("n", "numbers"),),
        inputs=(Tensor("x", (n,), "float32", "numbers from 0 to 1"),),
        outputs=(Tensor("y", (_ANSWERS,), "float32", "numbers"),),
        types=(Types("fp32", {}, tolerance=0.0),),
        variants=(
            Variant("one", Launch((1, 1, 1), (256, 1, 1), (n,)), doc, "probes.cu", f"latency_{name}", stores_once=True),
        ),
        reference=reference,
        examples=({"n": 784},),
        flops=0,
        source_dir=Path(__file__).parent,
    )
    for name, doc, reference in (
        ("signal", "numbers, at once", _signal),
        ("read", "the same after x was read", _read),
    )
)

# Takes requests as the resident kernel does, and answers at once.
ECHO = Kernel(
    name="latency_echo",
    doc="no answer",
    axes=(Axis("n", "images"),),
    inputs=(Tensor("x", (n, *IMAGE_SHAPE), "float32", "images"),),
    outputs=(Tensor("y", (n, _ANSWERS), "float32", "some of their pixels"),),
    types=(Types("fp32", {}, tolerance=0.0),),
    variants=(Variant("one", Launch((1, 1, 1), (256, 1, 1), (n,)), "not used", "probes.cu", "latency_signal"),),
    resident=Variant("resident", Launch((1, 1, 1), (224, 1, 1), ()), "answers at once", "echo.cu", min_sm=90),
    reference=_signal,
    examples=({"n": 1},),
    flops=0,
    source_dir=Path(__file__).parent,
)


@dataclass(frozen=True)
class Parts:
    """Hold the medians of the parts of a request, in microseconds."""

    copy_in: float
    submit: float
    wait: float
    copy_out: float


def parts_of(exchange: Exchange, images: Sequence[NDArray[Any]], count: int = _REQUESTS) -> Parts:
    """Time the parts of requests one after the other."""
    clock = time.perf_counter_ns
    (target,), (answer,) = exchange.inputs, exchange.answers
    times = np.empty((count, 5), np.int64)
    with no_collection():
        for row, image in zip(times, itertools.cycle(images), strict=False):
            begin = clock()
            target[...] = image
            copied = clock()
            exchange.request()
            submitted = clock()
            exchange.wait()
            answered = clock()
            answer.copy()
            row[:] = begin, copied, submitted, answered, clock()
    return Parts(*(np.median(np.diff(times, axis=1), axis=0) / 1e3).tolist())


def ledger(path: LatencyPath, images: Sequence[NDArray[Any]], whole_us: float) -> list[tuple[str, float]]:
    """Return the terms of a request, which add up to ``whole_us``, the median of whole requests."""
    exchange = path.exchange
    assert isinstance(exchange, Exchange)
    flat = [image.reshape(-1) for image in images]
    signal, read = (parts_of(_probe(kernel, flat[0]).exchange, flat) for kernel in PROBES)  # type: ignore[arg-type]
    parts = parts_of(exchange, images)
    terms = [
        ("the image is copied into pinned memory", parts.copy_in),
        ("the driver's call that launches", parts.submit),
        ("then: a kernel starts, and its answer is seen", signal.wait),
        ("the kernel reads the image over the bus", read.wait - signal.wait),
        ("the kernel computes", parts.wait - read.wait),
        ("the answer is copied out", parts.copy_out),
    ]
    return [*terms, ("Python's call and its checks", whole_us - sum(us for _, us in terms))]


def _probe(kernel: Kernel, example: NDArray[Any]) -> LatencyPath:
    bound = kernel.bind([example.shape], ["float32"])
    return one_launch([Port("x", "float32", example.shape)], SingleKernel(bound, {}), [example])


def resident_ledger(images: Sequence[NDArray[Any]], whole_us: float) -> list[tuple[str, float]]:
    """Return the terms of a request to the resident kernel, which add up to ``whole_us``, the median of requests."""
    clock = time.perf_counter_ns
    call = SingleKernel(ECHO.bind([images[0].shape], ["float32"]), {})
    echoes, copies_in, copies_out = [], [], []
    with open_resident([Port("x", "float32", images[0].shape)], call, images[0]) as path, no_collection():
        given, answer = np.zeros_like(images[0]), np.zeros((1, _ANSWERS), np.float32)
        words = given.reshape(-1).view(np.int32)
        place = np.zeros(words.shape, np.uint32)
        for image in itertools.islice(itertools.cycle(images), _REQUESTS):
            begin = clock()
            path(image)
            answered = clock()
            given[...] = image  # in two steps, as the ring does
            place[...] = words
            copied = clock()
            answer.copy()
            copies_out.append(clock() - copied)
            copies_in.append(copied - answered)
            echoes.append(answered - begin)
    echo, copy_in, copy_out = (float(np.median(each)) / 1e3 for each in (echoes, copies_in, copies_out))
    return [
        ("the image is copied into the ring", copy_in),
        ("the request is found, an answer is seen, and Python's part", echo - copy_in - copy_out),
        ("the kernel computes", whole_us - echo),
        ("the answer is copied out", copy_out),
    ]
