"""Run the traced program: load a network, time it, and run the inferences between the profiler's marks.

``python -m lenet_trt.profile.workload FOLDER`` reads FOLDER/request.json and leaves its results beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lenet_trt.cuda.driver import ask, driver
from lenet_trt.cuda.environment import environment
from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
from lenet_trt.profile import ort, ranges
from lenet_trt.profile.inference import DeviceInference, Inference, median_us, on_host
from lenet_trt.profile.replay import write_parts
from lenet_trt.profile.request import (
    FAILURE,
    REPLAY,
    REQUEST,
    TIMELINE,
    RecorderError,
    TraceRequest,
    read_request,
    write_failure,
)
from lenet_trt.runtimes.graph.replay_log import Ranges, ReplayLog
from lenet_trt.runtimes.graph.runtime import GraphRuntime
from lenet_trt.runtimes.inputs import Sizes, arrays_for, shapes_of
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.network import Network
from lenet_trt.runtimes.protocol import DeviceRuntime, HostRuntime
from lenet_trt.runtimes.tensorrt import EngineCall, TensorRt
from lenet_trt.tensorrt.sidecar import model_path
from lenet_trt.trace.engine import with_layers
from lenet_trt.trace.readers.trtexec_exports import inspected_layers
from lenet_trt.trace.timeline import Activity, Iteration, Timeline, save

# The first traced inferences take longer: the tracer allocates memory for its records.
_SETTLING = 3


def main(arguments: Sequence[str]) -> int:
    """Run what the folder's request asks for; an error is left there for the parent."""
    folder = Path(arguments[0])
    try:
        save(run_traced(read_request(folder / REQUEST), folder), folder / TIMELINE)
    except LenetTrtError as error:
        write_failure(error, folder / FAILURE)
        return error.exit_code
    return 0


def run_traced(request: TraceRequest, folder: Path) -> Timeline:
    """Trace a network; under Nsight Systems the timeline has no activities, because the report has them.

    Raises:
        LenetTrtError: the network cannot run here, or the recorder cannot record it.
    """
    network = load(request.model, request.runtime, trust=request.trust, library=request.library)
    try:
        shapes, sizes = shapes_of(network.inputs, Sizes(request.batch, request.sizes, request.shapes))
        arrays = arrays_for(network.inputs, shapes)
        runtime = network.implementation
        if isinstance(runtime, DeviceRuntime):
            log = ReplayLog()
            if isinstance(runtime, GraphRuntime):
                runtime.log = log
            infer = DeviceInference(runtime, arrays, request.transfers)
            unprofiled_us = median_us(infer, request.warmup)
            found = _on_gpu(request, runtime, infer, log)
            if not log.parts and not isinstance(runtime, TensorRt):
                note = f"{network.where} does not say which node it runs: GPU work names no node."
                found = replace(found, notes=(*found.notes, note))
            write_parts(log.parts, folder / REPLAY)
        else:
            unprofiled_us = median_us(on_host(runtime, arrays), request.warmup)
            found = _on_cpu(request, runtime, arrays, folder)
    finally:
        network.close()
    return replace(
        found,
        runtime=network.runtime,
        sizes=sizes,
        environment=_environment(network, shapes),
        unprofiled_us=unprofiled_us,
    )


def _on_gpu(request: TraceRequest, runtime: DeviceRuntime, infer: DeviceInference, log: ReplayLog) -> Timeline:
    if request.recorder == "nsys":
        mark = ranges.nvtx()
        ask(driver().cuProfilerStart(), "cannot begin the profiler's range")
        if log.parts:  # capture again within nsys' range, so that its report has the nodes too
            log.mark = mark
            infer.prepare()
        _infer(infer, mark, request.iterations)
        ask(driver().cuProfilerStop(), "cannot end the profiler's range")
        return Timeline("nsys")
    if request.recorder == "cupti":
        from lenet_trt.profile.cupti import Cupti

        cupti = Cupti()
        cupti.start()
        _infer(infer, cupti.range, request.iterations)
        return cupti.stop().timeline()
    if isinstance(runtime, TensorRt) and isinstance(infer.call, EngineCall):
        return _layers(request, runtime, infer, infer.call)
    raise RecorderError(f"the runtime {runtime.name} has no profiler of its own on the GPU: take --with nsys or cupti")


def _infer(infer: Inference, mark: Ranges, count: int) -> None:
    for _ in range(_SETTLING):
        infer()
    for number in range(count):
        with mark(ranges.iteration(number)):
            infer()


def _layers(request: TraceRequest, runtime: TensorRt, infer: DeviceInference, call: EngineCall) -> Timeline:
    """Trace TensorRT's own layer times and put them end to end: TensorRT gives durations without positions.

    What its inspector tells of the layers is added: of a region its name alone does not say which nodes it has.
    """
    times = runtime.layer_times(call)
    infer()  # the first run with a profiler sets it up
    activities: list[Activity] = []
    iterations = []
    at = 0.0
    for number in range(request.iterations):
        times.clear()
        infer()
        begin = at
        for name, ms in times:
            activities.append(Activity("layer", name, at, at + ms * 1e3, iteration=number, node=name))
            at += ms * 1e3
        iterations.append(Iteration(number, begin, at))
    if not activities:
        raise RecorderError("TensorRT gave no layer times: take --with nsys or cupti")
    note = "TensorRT gives each layer's duration, not its start: positions are reconstructed, without gaps."
    found = Timeline("IProfiler of TensorRT", notes=(note,), iterations=tuple(iterations), activities=tuple(activities))
    return with_layers(found, inspected_layers(runtime.description(call), "what TensorRT's inspector says"))


def _on_cpu(request: TraceRequest, runtime: HostRuntime, arrays: Sequence[NDArray[Any]], folder: Path) -> Timeline:
    if request.insist and request.recorder != "own":
        raise LenetTrtError(
            f"{runtime.where} does no GPU work, so --with {request.recorder} has nothing to trace: leave --with out "
            "(its own profiler then times each node)"
        )
    from lenet_trt.onnx_model.read import load_model
    from lenet_trt.runtimes.ort import OrtCpu

    model = ort.named(load_model(_onnx_file(Path(request.model))))
    profiled = OrtCpu(model.model, profile=folder / "ort")
    infer = on_host(profiled, arrays)
    for _ in range(request.warmup + request.iterations):
        infer()
    source = f"ONNX Runtime {onnx_runtime().__version__}"
    found = ort.ort_timeline(profiled.end_profile(), model, source, request.iterations)
    if request.transfers:
        found = replace(found, notes=(*found.notes, "--transfers has no effect on the CPU: nothing is copied."))
    return found


def _onnx_file(path: Path) -> Path:
    """Return the model that ONNX Runtime runs; for an engine, the model it was built from, as ``load`` found it."""
    if path.suffix == ".onnx":
        return path
    return model_path(path)


def _environment(network: Network, shapes: dict[str, tuple[int, ...]]) -> dict[str, object]:
    return {
        **environment(),
        "where": network.where,
        "why": network.reason,
        "shapes": {name: list(shape) for name, shape in shapes.items()},
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
