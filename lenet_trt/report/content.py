"""Gather what a report says of a traced run, independent of its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lenet_trt.floors.floor import bound_by
from lenet_trt.floors.layers import together
from lenet_trt.trace import tables as table_parts
from lenet_trt.trace.ledger import TERMS, Ledger, LedgerRow
from lenet_trt.trace.tables import TimeTables
from lenet_trt.trace.timeline import Timeline

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork
    from lenet_trt.trace.findings import Finding

SCHEMA = 1


@dataclass(frozen=True)
class TracedRun:
    """Hold one traced run with its ledger and findings. ``label`` is its name in the report.

    ``not_judged`` says where time could be lost without a finding.
    """

    label: str
    timeline: Timeline
    ledger: Ledger
    findings: tuple[Finding, ...]
    tables: TimeTables
    not_judged: tuple[str, ...] = ()


@dataclass(frozen=True)
class RooflinePoint:
    """Hold a node on the roofline: its work, the time that the hardware needs, and the time that it took."""

    node: str
    op: str
    shapes: str
    arithmetic: str
    flops: int
    bytes: int
    needed_us: float
    taken_us: float
    bound: str

    @property
    def intensity(self) -> float:
        """Return the operations per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def reached(self) -> float:
        """Return the share of its roof that the node reached."""
        return self.needed_us / self.taken_us if self.taken_us else 0.0


@dataclass(frozen=True)
class Change:
    """Hold a time before and now."""

    name: str
    before_us: float
    now_us: float

    @property
    def difference_us(self) -> float:
        """Return how much more time it takes now; the number is negative where time was won."""
        return self.now_us - self.before_us


@dataclass(frozen=True)
class Content:
    """Hold a run, the run to compare it with, and the reasons why parts are missing.

    ``missing`` has a reason for each missing part, such as "roofline". ``model_file``: the model that was given for a
    trace that names none.
    """

    run: TracedRun
    nodes: tuple[NodeWork, ...] = ()
    ceilings: Ceilings | None = None
    before: TracedRun | None = None
    optimized: Mapping[str, Any] | None = None
    commands: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    model_file: str | None = None

    @property
    def model(self) -> str:
        """Return the model's file name."""
        named = self.run.timeline.model or self.model_file
        return named.replace("\\", "/").rpartition("/")[2] if named else "a traced run"

    @property
    def gpu(self) -> str:
        """Return the GPU of the trace, or the CPU where the network ran there."""
        said = self.run.timeline.environment
        return str(said.get("gpu") or said.get("cpu") or "a GPU that the trace does not name")

    @property
    def floor_us(self) -> float | None:
        """Return the time that the hardware needs for the kernels that have a floor."""
        return self.run.ledger.total.floor_us if self.run.ledger.floor_known else None

    @property
    def recoverable_us(self) -> float:
        """Return the time that the findings of the ledger could win back together."""
        return sum(entry.recoverable_us for entry in self.run.findings if entry.kind != "cold_start")

    def roofline(self) -> list[RooflinePoint]:
        """Return the nodes whose work is known, in the ledger's order."""
        return [point for row in self.run.ledger.rows for point in [self._point(row)] if point]

    def _point(self, row: LedgerRow) -> RooflinePoint | None:
        held = [entry for entry in self.nodes if row.node is None or not set(row.nodes).isdisjoint(entry.model_nodes)]
        if self.ceilings is None or row.roof_us is None or not held or not row.terms.kernel_us:
            return None
        work = together(held)
        return RooflinePoint(
            node=row.node or "all kernels",
            op=row.op,
            shapes=row.shapes,
            arithmetic=row.arithmetic,
            flops=work.flops,
            bytes=work.total_bytes,
            needed_us=row.roof_us,
            taken_us=row.terms.kernel_us,
            bound=bound_by(work, held[0].arithmetic, self.ceilings),
        )

    def term_changes(self) -> list[Change]:
        """Return the ledger's terms before and now, and their sum."""
        if self.before is None:
            return []
        old, new = self.before.ledger, self.run.ledger
        terms = [Change(name, getattr(old.total, term), getattr(new.total, term)) for term, name in TERMS.items()]
        end = Change("end to end", old.end_to_end_us, new.end_to_end_us)
        return [*(change for change in terms if change.before_us or change.now_us), end]

    def node_changes(self) -> list[Change]:
        """Return each node's time before and now; a node that only one run has takes 0 in the other."""
        if self.before is None:
            return []
        old = {row.node: row.terms.total_us for row in self.before.ledger.rows}
        new = {row.node: row.terms.total_us for row in self.run.ledger.rows}
        replaced: dict[str | None, tuple[str, ...]] = {
            node: entry.replaces for entry in self.nodes for node in entry.model_nodes
        }
        changes = []
        for row in self.run.ledger.rows:
            # A fused node stands for the nodes that it replaced, and a layer for its nodes.
            gone = {name for node in _held(row) for name in replaced.get(node, ())} - set(new)
            stood_for = [entry.node for entry in self.before.ledger.rows if entry.node in old and _held(entry) <= gone]
            if row.node not in old and stood_for:
                before = sum(old.pop(name) for name in stood_for)
                name = f"{row.node} (before: {', '.join(map(str, stood_for))})"
                changes.append(Change(name, before, new.pop(row.node)))
        names: list[str | None] = [name for name in dict.fromkeys((*new, *old)) if name is not None]
        names += [None] if None in old or None in new else []
        return changes + [Change(name or "no node", old.get(name, 0.0), new.get(name, 0.0)) for name in names]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        timeline = self.run.timeline
        return {
            "schema": SCHEMA,
            "model": timeline.model or self.model_file,
            "gpu": self.gpu,
            "end_to_end_us": self.run.ledger.end_to_end_us,
            "floor_us": self.floor_us,
            "recoverable_us": self.recoverable_us,
            "source": timeline.source,
            "runtime": timeline.runtime,
            "sizes": dict(timeline.sizes),
            "environment": dict(timeline.environment),
            "commands": list(self.commands),
            "ledger": self.run.ledger.as_dict(),
            "findings": [entry.as_dict() for entry in self.run.findings],
            "not_judged": list(self.run.not_judged),
            "roofline": [_point_dict(point) for point in self.roofline()],
            "tables": table_parts.tables_json(self.run.tables),
            "before": None if self.before is None else self._before_dict(),
            "optimize": self.optimized,
            "missing": dict(self.missing),
            "notes": list(timeline.notes),
        }

    def _before_dict(self) -> dict[str, Any]:
        assert self.before is not None
        return {
            "model": self.before.timeline.model,
            "ledger": self.before.ledger.as_dict(),
            "terms": [_change_dict(change) for change in self.term_changes()],
            "nodes": [_change_dict(change) for change in self.node_changes()],
        }


def _held(row: LedgerRow) -> set[str | None]:
    """Return the nodes of a row; a row without a node has none."""
    return {*row.nodes} or {row.node}


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return the values of the axes as text: ``n = 32``."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def report_headline(content: Content) -> str:
    """Describe the run in two or three sentences."""
    from lenet_trt.draw.text import ratio_text, share_text, time_text

    ledger = content.run.ledger
    sentences = [f"One inference took {time_text(ledger.end_to_end_us)} from end to end."]
    if content.floor_us:
        ratio = ratio_text(ledger.end_to_end_us / content.floor_us)
        sentences.append(
            f"The hardware needs at least {time_text(content.floor_us)} for its kernels: {ratio} the floor."
        )
    largest = max((term for term in TERMS if term != "floor_us"), key=lambda term: getattr(ledger.total, term))
    value = getattr(ledger.total, largest)
    if ledger.end_to_end_us and value:
        share = share_text(value / ledger.end_to_end_us)
        other = "other " if content.floor_us else ""
        sentences.append(f"The largest {other}term is {TERMS[largest]}, {time_text(value)} ({share}).")
    return " ".join(sentences)


def change_verdict(content: Content) -> str:
    """Say whether the run became faster or slower, and by how much."""
    from lenet_trt.draw.text import ratio_text, time_text

    assert content.before is not None
    old, new = content.before.ledger.end_to_end_us, content.run.ledger.end_to_end_us
    if not old or not new:
        return ""
    word = "faster" if new <= old else "slower"
    factor = ratio_text(old / new if new <= old else new / old)
    return f"{time_text(old)} before, {time_text(new)} now: {factor} as {'fast' if word == 'faster' else 'long'}."


def _point_dict(point: RooflinePoint) -> dict[str, Any]:
    return {**vars(point), "intensity": point.intensity, "reached": point.reached}


def _change_dict(change: Change) -> dict[str, Any]:
    return {**vars(change), "difference_us": change.difference_us}


def shown_terms(runs: Sequence[TracedRun]) -> list[str]:
    """Return the terms that at least one of the runs has."""
    return [term for term in TERMS if any(getattr(run.ledger.total, term) for run in runs)]
