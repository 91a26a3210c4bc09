"""Measure one workload: build its contenders, check them against float64 and time them in turns, a row for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import torch

from lenet_trt.bench.record import Row
from lenet_trt.bench.suite import Recording
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns
from lenet_trt.floors.floor import Ceilings, Work, floors

Inputs: TypeAlias = tuple[torch.Tensor, ...]
TorchCall: TypeAlias = Callable[[], torch.Tensor]
# graph: one replay of a captured CUDA graph; launch: the work enters a busy stream; eager: the host's time counts.
Mode = Literal["graph", "launch", "eager"]

MAX_SETS = 40
SMALL_SETS = 8
_PIECE = 1 << 26
_UNUSUAL = 85


@dataclass(frozen=True)
class Contender:
    """Describe one way to do the work: ``prepare`` takes an input set and returns the call that computes the result."""

    name: str
    ours: bool
    prepare: Callable[[Inputs], TorchCall]
    modes: tuple[Mode, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """Describe a computation. ``draw`` makes a random input set, ``reference`` its exact result in float64.

    ``weights`` are the kernel's constant inputs in float32. ``launch_counts``: the work is so small that a launch is
    part of its floor. ``checked``: inputs that replace the random ones when results are checked; ``labels``: the
    classes that a classifier should give them.
    """

    section: str
    name: str
    title: str
    axes: Mapping[str, int]
    precision: Literal["fp32", "fp16", "int8"]
    work: Work
    draw: Callable[[], Inputs]
    reference: Callable[[Inputs], torch.Tensor]
    contenders: Sequence[Contender]
    mode: Mode
    launch_counts: bool
    kernel: str
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    checked: Inputs | None = None
    labels: torch.Tensor | None = None


def input_sets(bytes_a_call: int, l2_bytes: int) -> int:
    """Return how many input sets to rotate: enough to fill twice the L2 cache, unless that takes too many."""
    needed = math.ceil(2 * l2_bytes / bytes_a_call) + 1
    return needed if needed <= MAX_SETS else SMALL_SETS


def measure_workload(
    workload: Workload, found: Recording, ceilings: Ceilings, l2_bytes: int, stream: torch.cuda.Stream, plan: TimingPlan
) -> None:
    """Build, check and time all contenders, a row for each; a contender that fails has a row that says why.

    Facts that all rows of a workload share are kept once, in the record's ``details["workloads"]``.
    """
    found.say(workload.name)
    count = input_sets(workload.work.total_bytes, l2_bytes)
    lowest = floors(workload.work, workload.precision, ceilings, launch=workload.launch_counts)
    with torch.cuda.stream(stream), torch.no_grad():
        sets = [workload.checked or workload.draw(), *(workload.draw() for _ in range(count - 1))]
        wanted = workload.reference(tuple(tensor.clone() for tensor in sets[0]))
        timed: dict[str, Timed] = {}
        quality: dict[str, dict[str, float | None]] = {}
        failed: dict[str, Exception] = {}
        for contender in workload.contenders:
            for mode in contender.modes:
                key = _key(contender, mode)
                try:
                    calls = _calls(contender, sets, mode, stream)
                    quality[key] = _quality(calls[0], wanted, workload.labels)
                except Exception as problem:
                    failed[key] = problem
                    torch.cuda.synchronize()
                    continue
                timed[key] = Timed(calls, hold=mode != "eager")
        stats = time_in_turns(timed, stream.cuda_stream, hold, plan)
    found.details.setdefault("workloads", {})[workload.name] = {
        "section": workload.section,
        "title": workload.title,
        "kernel": workload.kernel,
        "axes": dict(workload.axes),
        "precision": workload.precision,
        "mode": workload.mode,
        **asdict(workload.work),
        "input_sets": count,
        "floors_us": {way: round(us, 3) for way, us in lowest.items()},
    }
    for contender in workload.contenders:
        for mode in contender.modes:
            key = _key(contender, mode)
            case = {"workload": workload.name, "mode": mode}
            extra = {"ours": contender.ours, **contender.details}
            if key in failed:
                found.cannot(contender.name, case, failed[key], **extra)
            else:
                found.add(Row(contender.name, case, stats[key], None, {**extra, **quality[key]}))
    found.sample_clocks()


def hold(microseconds: float) -> None:
    """Keep the current stream busy for at least this many microseconds, on a GPU whose clock is at most 2 GHz."""
    spin: Callable[[int], None] = torch.cuda._sleep  # a kernel that does nothing for a number of cycles
    spin(int(microseconds * 2000))


def captured(call: TorchCall, stream: torch.cuda.Stream) -> TorchCall:
    """Capture the call in a CUDA graph and return its replay; the result always lies in the same memory."""
    call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        result = call()
    finally:
        graph.capture_end()

    def replay(keep: TorchCall = call) -> torch.Tensor:  # what the call owns must outlive the graph
        graph.replay()
        return result

    return replay


def tensor_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return norm(got - wanted) / norm(wanted); infinity where the result is not finite or has another shape."""
    if got.shape != wanted.shape:
        return math.inf
    difference = 0.0
    norm = 0.0
    # In pieces: float64 copies of the largest outputs would take gigabytes at once.
    for a, b in zip(torch.split(got.reshape(-1), _PIECE), torch.split(wanted.reshape(-1), _PIECE), strict=True):
        difference += float((a.double() - b).square().sum())
        norm += float(b.square().sum())
    error = math.sqrt(difference / norm) if math.isfinite(difference) and norm > 0 else math.inf
    return error if math.isfinite(error) else math.inf


def _key(contender: Contender, mode: Mode) -> str:
    return f"{contender.name}|{mode}"


def _calls(contender: Contender, sets: Sequence[Inputs], mode: Mode, stream: torch.cuda.Stream) -> list[TorchCall]:
    calls = [contender.prepare(inputs) for inputs in sets]
    return [captured(call, stream) for call in calls] if mode == "graph" else calls


def _quality(call: TorchCall, wanted: torch.Tensor, labels: torch.Tensor | None) -> dict[str, float | None]:
    """Fill the result with NaN or 85, compute it again and compare: elements that were not written show."""
    result = call()
    result.fill_(math.nan if result.is_floating_point() else _UNUSUAL)
    got = call()
    error = tensor_error(got, wanted)
    found: dict[str, float | None] = {"error": float(f"{error:.3g}") if math.isfinite(error) else None}  # for JSON
    if labels is not None:
        found["accuracy"] = float((got.argmax(1) == labels).double().mean())
    return found
