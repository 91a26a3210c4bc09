"""Measure the best that this GPU does: bandwidths, rates, the cost of a launch, and copies from and to the host."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np

from lenet_trt.cuda.driver import Context, Pinned, Stream, ask, current_context, driver
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.timing import Call, Timed, TimingPlan, time_in_turns
from lenet_trt.floors.ceilings_kernels import FMA, NOTHING
from lenet_trt.floors.ceilings_kernels.ways import Buffers, Way, bandwidths, libraries, rates
from lenet_trt.floors.floor import Ceilings

HOST_BYTES = 256 << 20
CHAIN_NODES = 64
HOST_LAUNCHES = 500
# One launch of the kernel that keeps the stream busy takes at least this time: the 2048 threads of a multiprocessor do
# 33.6 million multiply-adds, which take 262,144 cycles at 128 per cycle, or 87 us at 3 GHz.
_HOLD_LAUNCH_US = 80.0
_PLAN = TimingPlan(rounds=5, warmup=1, burst=4, settle=4, budget_s=2.0)
_LAUNCH_PLAN = TimingPlan(rounds=10, warmup=5, burst=20)

Hold = Callable[[float], None]


def measure_gpu(gpu: str) -> Ceilings:
    """Measure everything on the GPU in use, and name it ``gpu``; this takes some seconds.

    Raises:
        LenetTrtError: there is no GPU, or too little of its memory is free.
    """
    context = current_context()
    stream = Stream()
    hold = _holder(stream, context)
    buffers = Buffers(context)
    ways = {**bandwidths(buffers, stream), **rates(stream, context)}
    others, why_not = libraries(stream)
    for what, (name, way) in others.items():
        if what in ways:
            ways[what][name] = way
    tried = {what: _achieved(entries, stream, hold) for what, entries in ways.items()}
    origins = {what: max(achieved, key=achieved.__getitem__) for what, achieved in tried.items()}
    best = {what: achieved[origins[what]] for what, achieved in tried.items()}
    launches = _launches(buffers, stream, hold)
    h2d, d2h = _transfers(buffers, stream, hold)
    ways.clear()
    others.clear()
    _release_torch()
    notes = [] if why_not is None else [_without_cublas(why_not, context.sm)]
    return Ceilings(
        gpu=gpu,
        source="measured",
        read_bytes_per_s=best.pop("read"),
        write_bytes_per_s=best.pop("write"),
        copy_bytes_per_s=best.pop("copy"),
        flop_per_s=best,
        launch_us=launches["graph_us"],
        h2d_bytes_per_s=h2d,
        d2h_bytes_per_s=d2h,
        sm=context.sm,
        multiprocessors=context.multiprocessors,
        details={
            "origins": origins,
            "tried": tried,
            "launches": launches,
            "buffer_bytes": buffers.size,
            "notes": notes,
        },
    )


def _achieved(ways: dict[str, Way], stream: Stream, hold: Hold) -> dict[str, float]:
    """Return the bytes or operations per second of each way, from its median time."""
    stats = time_in_turns({name: Timed([way.call]) for name, way in ways.items()}, stream.handle, hold, _PLAN)
    return {name: way.amount / (stats[name].median_us * 1e-6) for name, way in ways.items()}


def _holder(stream: Stream, context: Context) -> Hold:
    """Return a function that keeps the stream busy with chains of multiply-adds."""
    from lenet_trt.cuda.driver import Buffer

    count = 2048 * context.multiprocessors
    memory = [Buffer(4 * count) for _ in range(3)]
    zeros = np.zeros(count, np.float32)
    for buffer in memory:
        buffer.write(zeros)
    launch = prepare(FMA.bind_axes({"n": count}, FMA.types[0]))
    pointers = [buffer.pointer for buffer in memory]

    def hold(microseconds: float, _memory: object = memory) -> None:
        for _ in range(math.ceil(microseconds / _HOLD_LAUNCH_US)):
            launch(pointers, stream.handle)

    return hold


def _launches(buffers: Buffers, stream: Stream, hold: Hold) -> dict[str, float]:
    """Measure what the launch of a kernel that does nothing takes, in microseconds.

    ``graph_us``: as the only node of a CUDA graph, between two events. ``plain_us``: the same without a graph.
    ``node_us``: each further node in the chain of a graph. ``host_us``: the host's time for a launch from Python.
    """
    launch = prepare(NOTHING.bind_axes({"n": 1}, NOTHING.types[0]))
    pointers = [buffers.source.pointer, buffers.result.pointer]

    def nothing() -> None:
        launch(pointers, stream.handle)

    nothing()  # loads the kernel, which is not allowed during a capture
    graphs = {}
    for name, nodes in (("graph", 1), ("chain", CHAIN_NODES)):
        with stream.capture() as graphs[name]:
            for _ in range(nodes):
                nothing()
    calls: dict[str, Call] = {name: _replay(graph, stream) for name, graph in graphs.items()}
    timed = {name: Timed([call]) for name, call in {**calls, "plain": nothing}.items()}
    stats = time_in_turns(timed, stream.handle, hold, _LAUNCH_PLAN)
    stream.synchronize()
    begin = time.perf_counter()
    for _ in range(HOST_LAUNCHES):
        nothing()
    host_us = (time.perf_counter() - begin) * 1e6 / HOST_LAUNCHES
    stream.synchronize()
    return {
        "graph_us": stats["graph"].median_us,
        "plain_us": stats["plain"].median_us,
        "node_us": (stats["chain"].median_us - stats["graph"].median_us) / (CHAIN_NODES - 1),
        "host_us": host_us,
    }


def _replay(graph: object, stream: Stream) -> Call:
    return lambda: graph.replay(stream)  # type: ignore[attr-defined]


def _transfers(buffers: Buffers, stream: Stream, hold: Hold) -> tuple[float, float]:
    """Measure the bytes per second from pinned host memory to the GPU, and back."""
    size = min(HOST_BYTES, buffers.size)
    host = Pinned(np.random.default_rng(23).integers(0, 256, size, np.uint8))
    device = buffers.source.pointer
    calls: dict[str, Call] = {
        "h2d": lambda: ask(driver().cuMemcpyHtoDAsync(device, host.pointer, size, stream.handle), "cannot copy"),
        "d2h": lambda: ask(driver().cuMemcpyDtoHAsync(host.pointer, device, size, stream.handle), "cannot copy"),
    }
    achieved = _achieved({name: Way(size, call) for name, call in calls.items()}, stream, hold)
    return achieved["h2d"], achieved["d2h"]


def _without_cublas(why: str, sm: int) -> str:
    below = "; from sm_90 on mma.sync stays well below the peak: pip install torch" if sm >= 90 else ""
    return f"cuBLAS was not measured ({why}): the rates are of our own kernels{below}"


def _release_torch() -> None:
    """Give back the memory that torch keeps from its products."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
