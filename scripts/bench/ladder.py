"""The ladder: the numbered steps beside the product's variants, in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from bench import ours, suites
from bench.ladder_tables import LADDERS, Ladder
from bench.steps import Step, ready
from bench.workload import Call, Contender, Inputs, Mode, Workload
from lenet_trt.bind import Bound
from lenet_trt.registry import kernel as kernel_named


def ladder() -> Iterator[Workload]:
    """The LeNet-5, Conv and MatMul workloads in float32, with steps instead of peers."""
    for workload in (*suites.lenet5(), *suites.conv(), *suites.matmul()):
        for table in LADDERS:
            if workload.kernel == table.kernel and workload.precision == "fp32":
                yield _with_steps(workload, table)


def _with_steps(workload: Workload, table: Ladder) -> Workload:
    kernel = kernel_named(table.kernel)
    types = next(types for types in kernel.types if set(types.variables.values()) == {"float32"})
    bound = ours.bind(kernel, workload.axes, types)
    product = [replace(c, modes=("graph",)) for c in workload.contenders if c.ours]
    steps = [_contender(step, bound, workload.weights) for step in table.steps]
    name = f"ladder {workload.name}"
    return replace(workload, suite="ladder", name=name, contenders=[*steps, *product], mode="graph")


def _contender(step: Step, bound: Bound, weights: Mapping[str, torch.Tensor]) -> Contender:
    placed = {name: weight.to("cuda", torch.float32).contiguous() for name, weight in weights.items()}
    mode: Mode = "eager" if step.sync else "graph"
    # Made when it is prepared, so that a step that does not compile is a row that says so.
    prepared: list[Callable[[Inputs], Call]] = []

    def prepare(inputs: Inputs) -> Call:
        if not prepared:
            prepared.append(ready(step, bound, placed))
        return prepared[0](inputs)

    return Contender(step.name, True, prepare, (mode,), {"step": True})
