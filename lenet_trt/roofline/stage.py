"""Compute the roofline: the work of each node of a model, and the time that the hardware needs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lenet_trt.floors.floor import Ceilings, arithmetic_us, bound_by, floor_us, memory_us
from lenet_trt.floors.work import ModelWork, NodeWork

if TYPE_CHECKING:
    from lenet_trt.trace.timeline import Timeline

# The arithmetics in which products of floats may be computed.
FLOATS = ("split", "fp32", "tf32")


@dataclass(frozen=True)
class NodePoint:
    """Hold one node, or several that run as one: the time that the hardware needs, and the traced time if known."""

    work: NodeWork
    bound: str
    memory_us: float
    arithmetic_us: float
    needed_us: float
    taken_us: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return the measured time divided by the time that the hardware needs."""
        return self.taken_us / self.needed_us if self.taken_us is not None and self.needed_us else None


@dataclass(frozen=True)
class Roofline:
    """Hold the points of a model in graph order. ``as_one`` is the whole model as a single kernel."""

    model: str
    sizes: Mapping[str, int]
    ceilings: Ceilings
    points: tuple[NodePoint, ...]
    as_one: NodePoint
    end_to_end_us: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def needed_us(self) -> float:
        """Return the sum of the nodes' least times, one after the other, without launches."""
        return sum(point.needed_us for point in self.points)

    @property
    def taken_us(self) -> float | None:
        """Return the sum of the traced times; None where nothing was traced."""
        traced = [point.taken_us for point in self.points if point.taken_us is not None]
        return sum(traced) if traced else None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "model": self.model,
            "sizes": dict(self.sizes),
            "points": [{**asdict(point), "ratio": point.ratio} for point in self.points],
            "as_one": asdict(self.as_one),
            "needed_us": self.needed_us,
            "taken_us": self.taken_us,
            "end_to_end_us": self.end_to_end_us,
            "ceilings": asdict(self.ceilings),
            "notes": list(self.notes),
        }


def roofline(
    network: ModelWork,
    ceilings: Ceilings,
    *,
    model: str = "",
    sizes: Mapping[str, int] | None = None,
    floats: str = "split",
    timeline: Timeline | None = None,
) -> Roofline:
    """Compare every node with the ceilings; ``floats`` chooses the arithmetic of products of floats."""
    notes = [f"{ceilings.gpu}: {note}" for note in ceilings.details.get("notes", ())]
    nodes = network.nodes
    taken: dict[str, float] = {}
    end_to_end_us = None
    if timeline is not None:
        nodes, taken, end_to_end_us, more = _traced(network, ceilings, timeline)
        notes += more
    as_one = network.fused([entry.node for entry in network.nodes], "as one kernel", "all")
    if any(entry.estimated for entry in nodes):
        notes.append("~ marks an estimate: a function counts as one operation, an unknown operator as one per element")
    return Roofline(
        model,
        dict(sizes or {}),
        ceilings,
        tuple(_point(entry, ceilings, floats, taken.get(entry.node)) for entry in nodes),
        _point(as_one, ceilings, floats, None),
        end_to_end_us,
        tuple(notes),
    )


def _point(entry: NodeWork, ceilings: Ceilings, floats: str, taken_us: float | None) -> NodePoint:
    if entry.arithmetic == "split":
        entry = replace(entry, arithmetic=floats)
    work, arithmetic = entry.work, entry.arithmetic
    idle = work.total_bytes == 0 and work.flops == 0
    return NodePoint(
        entry,
        "-" if idle else bound_by(work, arithmetic, ceilings),
        memory_us(work, ceilings),
        arithmetic_us(work, arithmetic, ceilings),
        floor_us(work, arithmetic, ceilings, launch=False),
        taken_us,
    )


def _traced(
    network: ModelWork, ceilings: Ceilings, timeline: Timeline
) -> tuple[list[NodeWork], dict[str, float], float, list[str]]:
    """Return the nodes as they ran (fused nodes as one), in graph order, and each one's mean time in kernels."""
    from lenet_trt.trace.engine import traced_work
    from lenet_trt.trace.ledger import ledger_of

    work = traced_work(timeline, network.nodes)
    account = ledger_of(timeline, work, ceilings)
    layers = {entry.node: entry for entry in work if entry.holds}
    order = {entry.node: position for position, entry in enumerate(network.nodes)}
    merged: dict[str, NodeWork] = {}
    taken: dict[str, float] = {}
    for row in account.rows:
        inside = sorted((name for name in row.nodes if name in order), key=order.__getitem__)
        if row.node is None or not inside or any(name in merged for name in inside):
            continue
        entry = layers.get(row.node) or _as_one(network, inside, row.node, row.op)
        merged.update(dict.fromkeys(inside, entry))
        taken[entry.node] = row.terms.kernel_us
    nodes = list(dict.fromkeys(merged.get(entry.node, entry) for entry in network.nodes))
    notes = [f"measured times: {timeline.source}, mean of {len(account.used)} inferences, in kernels only"]
    missing = [entry.node for entry in nodes if entry.node not in taken and entry.work.total_bytes]
    if missing:
        notes.append(f"not in the trace: {', '.join(missing)}")
    return nodes, taken, account.end_to_end_us, notes


def _as_one(network: ModelWork, inside: Sequence[str], name: str, op: str) -> NodeWork:
    if len(inside) == 1:
        return next(entry for entry in network.nodes if entry.node == inside[0])
    return network.fused(inside, name, " + ".join(op.split(" + ")[:3]))
