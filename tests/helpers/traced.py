"""Timelines written by hand, for tests: each inference is a list of what happens, at times after it began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lenet_trt.floors.floor import Ceilings, Work
from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline

PERIOD_US = 10_000.0
# Round figures, so that floors can be worked out in the head: 1 us is 1 MB, or 10 Mflop outside tensor cores.
CEILINGS = Ceilings(
    "a GPU of round figures",
    "measured",
    read_bytes_per_s=1e12,
    write_bytes_per_s=1e12,
    copy_bytes_per_s=1e12,
    flop_per_s={"fp32": 1e13, "tf32": 1e14, "fp16": 2e14, "bf16": 2e14},
    launch_us=2.5,
    sm=90,
    multiprocessors=100,
)


def kernel(
    start: float, end: float, node: str | None = None, name: str = "k", call: int | None = 0, **more: Any
) -> Any:
    """A kernel; ``call`` is the position of the submission among the inference's calls, None where not traced."""
    return Activity("kernel", name, start, end, node=node, correlation=call, **more)


def copy(start: float, end: float, direction: str, node: str | None = None, call: int | None = 0, **more: Any) -> Any:
    """A copy."""
    return Activity("memcpy", direction, start, end, node=node, correlation=call, direction=direction, **more)


def call(start: float, end: float, name: str = "cudaLaunchKernel") -> ApiCall:
    """A call of the host."""
    return ApiCall(name, start, end)


def timeline(inferences: Sequence[tuple[float, Sequence[Any]]], period: float = PERIOD_US, **more: Any) -> Timeline:
    """Inferences of (how long, what happens), one after another every ``period`` microseconds.

    The n-th call of an inference submits the activities whose ``call`` is n.
    """
    iterations, activities, calls = [], [], []
    for index, (length, happens) in enumerate(inferences):
        begin = index * period
        iterations.append(Iteration(index, begin, begin + length))
        made = [entry for entry in happens if isinstance(entry, ApiCall)]
        for number, entry in enumerate(made):
            calls.append(
                replace(
                    entry,
                    start_us=entry.start_us + begin,
                    end_us=entry.end_us + begin,
                    correlation=1000 * index + number,
                )
            )
        for entry in happens:
            if isinstance(entry, Activity):
                correlation = None if entry.correlation is None else 1000 * index + entry.correlation
                activities.append(
                    replace(
                        entry,
                        start_us=entry.start_us + begin,
                        end_us=entry.end_us + begin,
                        iteration=index,
                        correlation=correlation,
                    )
                )
    return Timeline("hand", iterations=tuple(iterations), activities=tuple(activities), api_calls=tuple(calls), **more)


def repeated(length: float, happens: Sequence[Any], count: int = 8, **more: Any) -> Timeline:
    """The same inference again and again."""
    return timeline([(length, happens)] * count, **more)


def node(name: str, op: str = "Conv", read: int = 0, written: int = 0, flops: int = 0, arithmetic: str = "fp32") -> Any:
    """What a node has to do."""
    from lenet_trt.floors.work import NodeWork

    return NodeWork(name, op, Work(read, written, flops), arithmetic, "", ())
