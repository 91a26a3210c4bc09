"""One workload: its contenders are built, checked against float64 and timed in turns; the result is plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import torch

from lenet_trt.environment import clocks
from lenet_trt.floors import Ceilings, Work, floors
from lenet_trt.stats import Stats
from lenet_trt.timing import Plan, Timed, time_in_turns

Inputs: TypeAlias = tuple[torch.Tensor, ...]
Call: TypeAlias = Callable[[], torch.Tensor]
# graph: one replay of a captured CUDA graph; launch: put into a stream that is busy; eager: the host's time counts.
Mode = Literal["graph", "launch", "eager"]

MAX_SETS = 40
SMALL_SETS = 8
_PIECE = 1 << 26
# A kernel that does nothing for so many cycles; torch leaves its functions untyped.
_spin: Callable[[int], None] = torch.cuda._sleep


@dataclass(frozen=True)
class Contender:
    """One way to do the work: ``prepare`` readies it for one input set; the call that it returns gives the result."""

    name: str
    ours: bool
    prepare: Callable[[Inputs], Call]
    modes: tuple[Mode, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """What is to be computed. ``draw`` makes one random input set, ``reference`` the exact result of one, in float64.

    ``weights`` are the kernel's constant inputs in float32. ``launch_counts``: work so small that a launch is part of
    its floor.
    """

    suite: str
    name: str
    title: str
    axes: Mapping[str, int]
    precision: Literal["fp32", "fp16"]
    work: Work
    draw: Callable[[], Inputs]
    reference: Callable[[Inputs], torch.Tensor]
    contenders: Sequence[Contender]
    mode: Mode
    launch_counts: bool
    kernel: str | None = None
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)


def input_sets(bytes_a_call: int, l2_bytes: int) -> int:
    """How many input sets to rotate: together with the outputs twice the L2 cache, where a sane number makes that."""
    needed = math.ceil(2 * l2_bytes / bytes_a_call) + 1
    return needed if needed <= MAX_SETS else SMALL_SETS


def run(workload: Workload, ceilings: Ceilings, l2_bytes: int, stream: torch.cuda.Stream, plan: Plan) -> dict[str, Any]:
    """Build, check and time all contenders; one that fails becomes a row that says why."""
    before = clocks()
    count = input_sets(workload.work.read_bytes + workload.work.written_bytes, l2_bytes)
    rows: list[dict[str, Any]] = []
    with torch.cuda.stream(stream), torch.no_grad():
        sets = [workload.draw() for _ in range(count)]
        checked = tuple(tensor.clone() for tensor in sets[0])
        wanted = workload.reference(checked)
        timed: dict[str, Timed] = {}
        for contender in workload.contenders:
            row: dict[str, Any] = {"name": contender.name, "ours": contender.ours, **contender.details}
            rows.append(row)
            try:
                calls = {mode: _calls(contender, sets, mode, stream) for mode in contender.modes}
                error = max(_error(mode_calls[0], wanted) for mode_calls in calls.values())
                row["error"] = error if math.isfinite(error) else None  # JSON has no infinity
            except Exception as problem:
                row["failed"] = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
                torch.cuda.synchronize()
                continue
            for mode, mode_calls in calls.items():
                timed[f"{contender.name}|{mode}"] = Timed(mode_calls, hold=mode != "eager")
        summaries = time_in_turns(timed, stream.cuda_stream, hold, plan)
    _add_times(rows, summaries, workload.mode)
    lowest = floors(workload.work, workload.precision, ceilings, launch=workload.launch_counts)
    return {
        "suite": workload.suite,
        "name": workload.name,
        "title": workload.title,
        "kernel": workload.kernel,
        "axes": dict(workload.axes),
        "precision": workload.precision,
        "timed": workload.mode,
        **asdict(workload.work),
        "input_sets": count,
        "floors_us": lowest,
        "floor_us": min(lowest.values()),
        "clocks_before": asdict(before),
        "clocks_after": asdict(clocks()),
        "contenders": rows,
    }


def hold(microseconds: float) -> None:
    """Keep the current stream busy for at least that long (at the 2 GHz that no GPU of today exceeds by much)."""
    _spin(int(microseconds * 2000))


def captured(call: Call, stream: torch.cuda.Stream) -> Call:
    """The call as a replay of a CUDA graph; its result always lies in the same memory."""
    call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        result = call()
    finally:
        graph.capture_end()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


def relative_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """norm(got - wanted) / norm(wanted); infinite where the result is not finite or has another shape."""
    if got.shape != wanted.shape:
        return math.inf
    difference = 0.0
    norm = 0.0
    # In pieces: float64 copies of the largest outputs at once would take gigabytes.
    for a, b in zip(torch.split(got.reshape(-1), _PIECE), torch.split(wanted.reshape(-1), _PIECE), strict=True):
        difference += float((a.double() - b).square().sum())
        norm += float(b.square().sum())
    error = math.sqrt(difference / norm) if math.isfinite(difference) and norm > 0 else math.inf
    return error if math.isfinite(error) else math.inf


def _calls(contender: Contender, sets: Sequence[Inputs], mode: Mode, stream: torch.cuda.Stream) -> list[Call]:
    calls = [contender.prepare(inputs) for inputs in sets]
    return [captured(call, stream) for call in calls] if mode == "graph" else calls


def _error(call: Call, wanted: torch.Tensor) -> float:
    """Poison the result, compute it again and compare: what was not written shows."""
    call().fill_(math.nan)
    return relative_error(call(), wanted)


def _add_times(rows: Sequence[dict[str, Any]], summaries: Mapping[str, Stats], mode: Mode) -> None:
    """Put each contender's times into its row: in the workload's mode (or its only one), others under ``also``."""
    for row in rows:
        keys = [key for key in summaries if key.rpartition("|")[0] == row["name"]]
        own = {key.rpartition("|")[2]: summaries[key] for key in keys}
        if not own:
            continue
        main = mode if mode in own else next(iter(own))
        row["timed"] = main
        row.update(_rounded(own[main]))
        also = {other: _rounded(summary) for other, summary in own.items() if other != main}
        if also:
            row["also"] = also


def _rounded(summary: Stats) -> dict[str, float | int]:
    return {
        "us": round(summary.median_us, 3),
        "p10_us": round(summary.p10_us, 3),
        "p90_us": round(summary.p90_us, 3),
        "timings": summary.count,
    }
