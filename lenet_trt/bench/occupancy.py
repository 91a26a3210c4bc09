"""Measure the suite ``occupancy``: how much of the GPU a batch uses, and why one image leaves most of it idle.

For each backend and batch size it measures the throughput; for our kernel, the blocks of its launch and how many of
them fit on the GPU; and, where ``ncu`` is installed, the hardware counters while the kernels ran.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lenet_trt.bench.counters import Counted, count_launches, launches_together
from lenet_trt.bench.occupancy_calls import BACKENDS, Maker, Ours, exact, geometry, images
from lenet_trt.bench.occupancy_child import MARK
from lenet_trt.bench.occupancy_tables import charts as charts
from lenet_trt.bench.occupancy_tables import columns as columns
from lenet_trt.bench.occupancy_tables import summaries as summaries
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.hold import memory_hold
from lenet_trt.cuda.statistics import Stats
from lenet_trt.cuda.timing import Timed, time_in_turns
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error

BATCHES = tuple(4**power for power in range(8))
QUICK_BATCHES = (1, 64, 4096)
SETS = 4
# The number of images whose answers are compared with float64, and the largest relative error of fp16 and of others.
CHECKED = 64
MOST_ERROR = {"fp16": 5e-3, "": 1e-4}
# The CUDA graph replays the kernels that the plain calls launch, so these are counted once.
SAME_KERNELS = {"torch CUDA graph": "torch eager"}

OccupancyKey = tuple[str, int]


def measure(options: SuiteOptions) -> Record:
    """Time every backend at every batch size, and count what the GPU does meanwhile."""
    batches = options.batches or (QUICK_BATCHES if options.quick else BATCHES)
    with recording("occupancy", options) as found:
        if not gpus().devices:
            for backend in BACKENDS:
                for batch in batches:
                    found.cannot(backend, {"batch": batch}, f"it needs a CUDA GPU: {gpus().problem}")
            return found.finish()
        times: dict[OccupancyKey, Stats] = {}
        why: dict[OccupancyKey, str] = {}
        facts: dict[OccupancyKey, dict[str, Any]] = {}
        counters: Mapping[OccupancyKey, Mapping[str, float]] = {}
        try:
            for batch in batches:
                found.say(f"batch {batch}")
                _time(batch, options, times, why, facts)
                found.sample_clocks()
            counted = [backend for backend in BACKENDS if all((backend, batch) in times for batch in batches)]
            try:
                found.say("hardware counters, by ncu")
                counters = counted_by_ncu(counted, batches)
            except LenetTrtError as error:
                found.details["counters"] = str(error)
        finally:  # an interruption keeps its rows too
            for backend in BACKENDS:
                largest = max(
                    (batch * 1e6 / times[b, batch].median_us for b, batch in times if b == backend), default=0
                )
                for batch in batches:
                    key = (backend, batch)
                    if key in times:
                        extra = _figures(batch, times[key], largest, counters.get(key, {}))
                        found.add(Row(backend, {"batch": batch}, times[key], None, {**facts[key], **extra}))
                    else:
                        found.cannot(backend, {"batch": batch}, why.get(key, "it was interrupted"))
            if "counters" in found.details:
                found.notes.append(f"SM active, SM throughput and DRAM are missing: {found.details['counters']}.")
    return found.finish()


def _time(
    batch: int,
    options: SuiteOptions,
    times: dict[OccupancyKey, Stats],
    why: dict[OccupancyKey, str],
    facts: dict[OccupancyKey, dict[str, Any]],
) -> None:
    """Time all backends at one batch size, in turns."""
    maker = Maker()
    sets = images(batch, SETS)
    wanted = exact(sets[0][:CHECKED])
    contenders: dict[str, Timed] = {}
    for backend in BACKENDS:
        key = (backend, batch)
        try:
            made = maker.make(backend, sets)
            error = relative_error(made.answer(CHECKED), wanted)
            if not error <= MOST_ERROR["fp16" if "fp16" in backend else ""]:
                raise LenetTrtError(f"its answer is wrong: relative error {error:.1e}")
        except (LenetTrtError, RuntimeError) as problem:  # torch's errors are RuntimeErrors
            why[key] = str(problem)
            continue
        facts[key] = {"error": error}
        if isinstance(made, Ours):
            launch = geometry(made.bound, made.variant)
            facts[key] |= asdict(launch)
            facts[key] |= {
                name: round(getattr(launch, name), 3)
                for name in ("multiprocessors_percent", "threads_percent", "waves")
            }
        contenders[backend] = Timed(made.calls, hold=backend != "torch eager")
    hold = memory_hold(maker.stream.handle)
    found = time_in_turns(contenders, maker.stream.handle, hold, options.plan)
    times.update({(backend, batch): stats for backend, stats in found.items()})


def counted_by_ncu(backends: Sequence[str], batches: Sequence[int]) -> dict[OccupancyKey, dict[str, float]]:
    """Return the counters of each backend and batch size; several kernels are combined into one.

    Raises:
        LenetTrtError: ncu is not there, may not count, or does not show what was launched.
    """
    chosen = [backend for backend in backends if backend not in SAME_KERNELS]
    if not chosen:
        return {}
    program = [sys.executable, "-m", "lenet_trt.bench.occupancy_child", "--backends", *chosen, "--batches"]
    sections = by_mark(count_launches([*program, *map(str, batches)]))
    keys = [(backend, batch) for backend in chosen for batch in batches]
    if len(sections) != len(keys) or not all(sections):
        raise LenetTrtError(f"ncu shows {len(sections)} of the {len(keys)} batches that were launched")
    found = {key: launches_together(launches) for key, launches in zip(keys, sections, strict=True)}
    for key, launches in zip(keys, sections, strict=True):
        found[key]["kernels"] = len(launches)
    for same, as_this in SAME_KERNELS.items():
        found |= {(same, batch): found[as_this, batch] for batch in batches if (as_this, batch) in found}
    return found


def by_mark(launches: Sequence[Counted]) -> list[list[Counted]]:
    """Split the launches at the marks, and return those after each mark."""
    sections: list[list[Counted]] = []
    for launch in launches:
        if launch.kernel.startswith(MARK):
            sections.append([])
        elif sections:
            sections[-1].append(launch)
    return sections


def _figures(batch: int, stats: Stats, largest: float, counters: Mapping[str, float]) -> dict[str, Any]:
    """Compute the throughput, and the share of the call's time in which kernels ran."""
    rate = batch * 1e6 / stats.median_us
    found: dict[str, Any] = {"images_per_s": round(rate), "images_percent": round(100 * rate / largest, 2), **counters}
    if "kernel_us" in counters:
        found["busy_percent"] = round(min(100.0, 100 * counters["kernel_us"] / stats.median_us), 2)
    return found
