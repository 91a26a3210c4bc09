"""Profile a network: run it under a tracer, or read a trace that another tool made, as one timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lenet_trt.files import check_can_read, sha256_file
from lenet_trt.kernel.shapes import Shape
from lenet_trt.profile.request import DEFAULT_ITERATIONS, DEFAULT_WARMUP, TraceRequest
from lenet_trt.profile.session import traced_timeline
from lenet_trt.runtimes.table import candidates
from lenet_trt.tensorrt.plan_header import WANTED_NETWORK
from lenet_trt.trace.timeline import Timeline


def profile_model(
    path: Path | str,
    runtime: str = "auto",
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    iterations: int = DEFAULT_ITERATIONS,
    warmup: int = DEFAULT_WARMUP,
    recorder: str = "auto",
    transfers: bool = False,
    trust: bool = False,
    library: Path | None = None,
    report: Path | None = None,
) -> Timeline:
    """Run an engine, an ONNX or a fused ONNX file in a process of its own and trace its inferences.

    ``batch``: the size of the first axis of each input where it is open (default 1). ``sizes``: sizes of axes by name.
    ``shapes``: whole shapes of inputs. ``recorder``: "auto" takes nsys where it is installed, else CUPTI, and the
    runtime's own profiler where nothing runs on a GPU. ``transfers``: each inference copies its inputs to the GPU and
    its results back. ``library``: the plugin library of an engine that needs one. ``report``: the path where the
    .nsys-rep is kept, if nsys makes one.

    Raises:
        UsageError: the network does not have these sizes, or the runtime or recorder is unknown.
        LenetTrtError: the network does not run here, or no recorder works; the message says what to install.
    """
    path = Path(path)
    request = TraceRequest(
        model=str(_existing(path)),
        runtime=runtime,
        recorder=recorder,
        batch=batch,
        sizes=dict(sizes or {}),
        shapes=dict(shapes or {}),
        iterations=iterations,
        warmup=warmup,
        transfers=transfers,
        trust=trust,
        library=None if library is None else str(library),
    )
    request.check()
    candidates(runtime)
    return _of_model(traced_timeline(request, report), path)


def _existing(path: Path) -> Path:
    check_can_read(path, WANTED_NETWORK)
    return path


def _of_model(timeline: Timeline, path: Path) -> Timeline:
    return replace(timeline, model=path.name, model_sha256=sha256_file(path))
