"""Measure the suite ``kernels``: every kernel's variants beside PyTorch's ways to do the same, and the floor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from lenet_trt.bench.gains import PRODUCT, MeasuredWorkload, display_name, measured_workloads
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.bench.tables import Column, duration, standard_columns
from lenet_trt.bench.workloads import extent_of, layer_workloads_of, without_workloads, workloads_of
from lenet_trt.cuda.statistics import Stats
from lenet_trt.draw.chart import Chart, Series
from lenet_trt.errors import LenetTrtError

if TYPE_CHECKING:
    from lenet_trt.bench.workload import Workload

TAKES_ONLY = True
# torch.compile tries many templates for each size, which takes a minute; a quick run takes the first.
QUICK_BATCHES = (1, 1024)


def measure(options: SuiteOptions) -> Record:
    """Time all kernels; without a GPU or torch each kernel has a row that says so."""
    from lenet_trt.kernel.registry import kernels

    with recording("kernels", options) as found:
        problem = kernels_obstacle()
        if problem is None:
            extent = extent_of(options, QUICK_BATCHES)
            run_all(chain(workloads_of(extent), layer_workloads_of(extent)), found, options)
            for name in filter(found.wants, without_workloads()):
                why = "its folder has no workloads.py, which says what to time"
                found.cannot(PRODUCT, {"workload": name, "mode": "-"}, why, ours=True)
        else:
            for name in kernels_named(found, kernels(), problem):
                found.cannot(PRODUCT, {"workload": name, "mode": "-"}, problem, ours=True)
    return found.finish()


def kernels_named(found: Recording, names: Iterable[str], problem: str) -> list[str]:
    """Return the kernels to tell of where ``problem`` keeps their workloads from being made: all, or as ``only`` says.

    Raises:
        LenetTrtError: no kernel has such a name, and the names of workloads are not known here.
    """
    named = [name for name in names if found.wants(name)]
    if not named and not found.rows:
        raise LenetTrtError(f"--only: no kernel has such a name, and workloads are not known here: {problem}")
    return named


def kernels_obstacle() -> str | None:
    """Say why kernels cannot be timed here, or return None."""
    from importlib.util import find_spec

    from lenet_trt.cuda.gpus import gpus

    if not gpus().devices:
        return f"needs a CUDA GPU: {gpus().problem}"
    if find_spec("torch") is None:
        return "its inputs and peers are PyTorch's, which is not installed: pip install torch"
    import torch

    return (
        None if torch.cuda.is_available() else f"torch {torch.__version__} is built without CUDA: install one with it"
    )


def run_all(found_workloads: Iterable[Workload], found: Recording, options: SuiteOptions) -> None:
    """Time the workloads one after the other, against the ceilings of this GPU."""
    import torch

    from lenet_trt.bench import peers
    from lenet_trt.bench.workload import measure_workload
    from lenet_trt.cuda.compile import source_sha256
    from lenet_trt.cuda.driver import context_lost
    from lenet_trt.cuda.environment import environment
    from lenet_trt.cuda.machine import machine_of
    from lenet_trt.cuda.tuned import choices_for
    from lenet_trt.floors.ceilings import ceilings_json, measured_ceilings
    from lenet_trt.kernel.registry import kernels

    ceilings = measured_ceilings()
    found.details["ceilings"] = ceilings_json(ceilings)
    found.details["kernels"] = {
        name: {
            "version": kernel.version,
            "source_sha256": source_sha256(kernel),
            "tuned_choices": len(choices_for(kernel, machine_of())),
        }
        for name, kernel in kernels().items()
    }
    peers.set_up_torch()
    stream = torch.cuda.Stream()
    l2_bytes = int(str(environment()["l2_bytes"]))
    for workload in found_workloads:
        if not found.wants(workload.name):
            continue
        try:
            measure_workload(workload, found, ceilings, l2_bytes, stream, options.plan)
            torch.cuda.empty_cache()
        except Exception as problem:
            found.cannot("all contenders", {"workload": workload.name, "mode": workload.mode}, problem)
            if lost := context_lost():
                found.notes.append(f"After {workload.name} nothing more could run: {lost}.")
                return


def columns(record: Record) -> list[Column]:
    """Return the standard columns, and each row's time divided by the floor and by the best peer's time."""

    def times_faster(stats: Stats, workload: MeasuredWorkload) -> str:
        peer = workload.best_peer
        return f"{peer.stats.median_us / stats.median_us:.2f}" if peer and peer.stats else "-"

    return columns_with_floor(record, "best peer / it", times_faster)


def columns_with_floor(record: Record, title: str, say: Callable[[Stats, MeasuredWorkload], str]) -> list[Column]:
    """Return the standard columns, each row's time divided by the floor, and one more column, which ``say`` fills."""
    by_name = {workload.name: workload for workload in measured_workloads(record)}

    def where_known(said: Callable[[Stats, MeasuredWorkload], str]) -> Callable[[Row], str]:
        def cell(row: Row) -> str:
            workload = by_name.get(str(row.case.get("workload")))
            return said(row.stats, workload) if row.stats and workload else "-"

        return cell

    return [
        *standard_columns(record, display_name),
        Column("x floor", where_known(lambda stats, workload: f"{stats.median_us / workload.floor_us:.2f}")),
        Column(title, where_known(say)),
    ]


def charts(record: Record) -> list[Chart]:
    """Draw each workload's time in units of its floor, ours and the best peer's."""
    chosen = [w for w in measured_workloads(record) if w.facts["section"] != "layers" and w.product and w.best_peer]
    if not chosen:
        return []
    names = [workload.short_title for workload in chosen]
    series = [
        _bars("ours", names, [(workload, workload.product) for workload in chosen], emphasis=True),
        _bars("torch's best", names, [(workload, workload.best_peer) for workload in chosen]),
    ]
    title = f"Kernels on {record.gpu}: time in units of the floor"
    floor = ("floor", 1.0)
    return [Chart(title, "times the floor", "", series, x_log=True, horizontal=True, limit=floor)]


def _bars(
    label: str, names: Sequence[str], rows: Sequence[tuple[MeasuredWorkload, Row | None]], emphasis: bool = False
) -> Series:
    timed = [(workload.floor_us, row.stats.median_us if row and row.stats else None) for workload, row in rows]
    lengths = [us / floor if us is not None else None for floor, us in timed]
    texts = [duration(us) if us is not None else "" for _, us in timed]
    return Series(label, names, lengths, "bars", emphasis, texts=texts)
