"""A workbench whose times are given, for tests of what optimize decides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.read import load_model
from lenet_trt.optimize.bench import observation
from lenet_trt.optimize.records import Accuracy, Observation
from lenet_trt.optimize.space import PluginPlan, Space
from traced import call, kernel, repeated


def stats(median: float, spread: float = 0.01) -> Stats:
    """160 timings evenly over a spread of so much of the median."""
    return summarize([median * (1 + spread * (at / 159 - 0.5)) for at in range(160)]).without_samples()


class Clock:
    """A workbench whose times are given: what each node costs, and what each kernel costs instead."""

    def __init__(
        self,
        space: Space,
        kernels: Mapping[str, float],
        node_us: float = 10.0,
        wrong: frozenset[str] = frozenset(),
        broken: frozenset[str] = frozenset(),
        traced: bool = True,
    ) -> None:
        self.space, self.kernels, self.node_us, self.traced = space, kernels, node_us, traced
        self.wrong, self.broken = wrong, broken
        self.nodes = [node.name for node in space.model.graph.node]
        self.done: list[str] = []

    def costs(self, plan: PluginPlan, batch: int | None) -> dict[str, float]:
        names = self.space.fitted(plan).nodes
        covered = {node for piece in plan.pieces for node in piece.nodes}
        found = {node: self.node_us * (batch or 1) for node in self.nodes if node not in covered}
        return {**found, **{names[piece]: self.kernels[piece.kernel] for piece in plan.pieces}}

    def observe(self, plan: PluginPlan, batch: int | None) -> Observation:
        self.done.append(f"observe {plan}")
        if not self.traced:
            return Observation(sum(self.costs(plan, batch).values()), (), why="no tracer here")
        happens, at = [call(0, 1, "cudaGraphLaunch")], 2.0
        for node, us in self.costs(plan, batch).items():
            happens.append(kernel(at, at + us, node))
            at += us
        return observation(repeated(at, happens, period=10 * at), None, None)

    def check(self, plan: PluginPlan, batch: int | None) -> Accuracy:
        self.done.append(f"check {plan}")
        bad = {piece.kernel for piece in plan.pieces} & self.wrong
        return Accuracy("float64", 1.0 if bad else 1e-7, 1e-7, 1e-5, problem="not accurate enough" if bad else None)

    def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, *, chosen: bool = False) -> tuple[Stats, ...]:
        self.done.append(f"compare {'chosen ' * chosen}{', '.join(map(str, plans))}")
        for plan in plans:
            if {piece.kernel for piece in plan.pieces} & self.broken:
                raise LenetTrtError("this kernel does not run here")
        return tuple(stats(sum(self.costs(plan, batch).values())) for plan in plans)

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        return 0.0


@cache
def lenet5_space() -> Space:
    from lenet_trt.export.lenet5 import SHIPPED

    return Space(load_model(SHIPPED))


SLOW = dict.fromkeys(
    ("lenet5", "conv5x5_bias_relu_pool2", "conv5x5_bias", "maxpool2", "max_pool", "dense_bias_relu", "linear"), 1e6
)
