"""Measure the suite ``ladder``: the kernels' numbered steps beside the product, from a loop on the CPU upwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lenet_trt.bench.gains import PRODUCT, MeasuredWorkload, measured_workloads
from lenet_trt.bench.kernels import columns_with_floor, kernels_named, kernels_obstacle, run_all
from lenet_trt.bench.record import Record
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.bench.tables import Column, duration
from lenet_trt.bench.workloads import extent_of, workloads_of
from lenet_trt.cuda.statistics import Stats
from lenet_trt.draw.chart import Chart, Series
from lenet_trt.kernel.registry import kernel, kernels
from lenet_trt.kernel.steps import Step, cpu_step_of, steps_of

if TYPE_CHECKING:
    import torch

    from lenet_trt.bench.workload import Contender, Inputs, TorchCall, Workload
    from lenet_trt.kernel.bind import Bound

TAKES_ONLY = True
QUICK_BATCHES = (1, 10_000)


def measure(options: SuiteOptions) -> Record:
    """Time all steps; without a GPU each step is a row that says so, and only the loops on the CPU are timed."""
    from lenet_trt.bench import cpu_loop

    with recording("ladder", options) as found:
        for name, declared in kernels().items():
            in_c, case = cpu_step_of(name), _case(f"{name} fp32")
            if in_c and found.wants(str(case["workload"])):
                found.say(f"{name} on the CPU")
                found.add(cpu_loop.row(declared, in_c, case, options.plan))
        problem = kernels_obstacle()
        if problem is None:
            run_all(_workloads(options), found, options)
        else:
            for name in kernels_named(found, filter(steps_of, kernels()), problem):
                for step in steps_of(name):
                    found.cannot(step.name, _case(name), problem, ours=True, step=True)
    return found.finish()


def columns(record: Record) -> list[Column]:
    """Return the standard columns, and each step's time beside the floor and the slowest step."""

    def gain(stats: Stats, workload: MeasuredWorkload) -> str:
        slowest = max((each.stats.median_us for each in workload.rows if each.stats), default=0.0)
        return f"{slowest / stats.median_us:.1f}x" if slowest else "-"

    return columns_with_floor(record, "gain", gain)


def charts(record: Record) -> list[Chart]:
    """Draw a panel for the largest workload of each ladder: a bar for each step, on a logarithmic axis."""
    last = {str(w.facts["kernel"]): w for w in measured_workloads(record)}
    return [_chart(workload) for workload in last.values() if any(row.stats for row in workload.rows)]


def _chart(workload: MeasuredWorkload) -> Chart:
    shown = [row for row in workload.ordered() if row.stats and (row.extra.get("step") or row.backend == PRODUCT)]
    names = [row.backend for row in shown]
    times = [row.stats.median_us if row.stats else None for row in shown]
    steps = [None if name == PRODUCT else us for name, us in zip(names, times, strict=True)]
    product = [us if name == PRODUCT else None for name, us in zip(names, times, strict=True)]
    texts = [duration(us) if us is not None else "" for us in times]
    stacked = [
        Series("steps", names, steps, "bars", group="all", texts=texts),
        Series("product", names, product, "bars", emphasis=True, group="all", texts=texts),
    ]
    floor = ("floor", workload.floor_us)
    return Chart(workload.short_title, "microseconds", "", stacked, x_log=True, horizontal=True, limit=floor)


def _case(workload: str) -> dict[str, int | str]:
    return {"workload": f"ladder {workload}", "mode": "-"}


def _workloads(options: SuiteOptions) -> Iterator[Workload]:
    """Yield the workloads of every kernel that has steps, in float32, with steps in place of peers."""
    for workload in workloads_of(extent_of(options, QUICK_BATCHES)):
        steps = steps_of(workload.kernel)
        if steps and workload.precision == "fp32":
            yield _with_steps(workload, steps)


def _with_steps(workload: Workload, steps: Sequence[Step]) -> Workload:
    declared = kernel(workload.kernel)
    types = next(types for types in declared.types if set(types.variables.values()) == {"float32"})
    bound = declared.bind_axes(workload.axes, types)
    product = [replace(c, modes=("graph",)) for c in workload.contenders if c.ours]
    made = [_contender(step, bound, workload.weights) for step in steps]
    name = f"ladder {workload.name}"
    return replace(workload, section="ladder", name=name, contenders=[*made, *product], mode="graph")


def _contender(step: Step, bound: Bound, weights: Mapping[str, torch.Tensor]) -> Contender:
    import torch

    from lenet_trt.bench.steps import ready
    from lenet_trt.bench.workload import Contender

    placed = {name: weight.to("cuda", torch.float32).contiguous() for name, weight in weights.items()}
    # The step is compiled in prepare(), so that a step that does not compile becomes a row that says so.
    prepared: list[Callable[[Inputs], TorchCall]] = []

    def prepare(inputs: Inputs) -> TorchCall:
        if not prepared:
            prepared.append(ready(step, bound, placed))
        return prepared[0](inputs)

    return Contender(step.name, True, prepare, ("eager" if step.sync else "graph",), {"step": True})
