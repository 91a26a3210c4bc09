"""Account for the time of one inference, in terms that add up to it exactly.

    end to end = floor + kernel inefficiency + copies and reformats + launch gaps + host enqueue + residual

Every moment of an inference belongs to one term and one node (``accounting.slices`` decides which), so the sums hold
for each node and for the whole. A layer that reformats what a plugin reads or writes belongs to the plugin. Kernel time
up to what the hardware needs is the floor; the rest of it is inefficiency. Kernels without a known floor are a term of
their own, ``unjudged``. The ledger shows the *interquartile mean*: inferences are sorted by their time, the fastest and
the slowest quarter are left out (a cold start, a preempted host), and each term is the mean over the others. With one
or two inferences, all are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lenet_trt.floors.floor import Ceilings
from lenet_trt.floors.layers import floor_of, members
from lenet_trt.schema import Us
from lenet_trt.tensorrt.layers import plugin_reformats
from lenet_trt.trace.accounting.inferences import inferences, middle_half, note_what_is_outside
from lenet_trt.trace.accounting.names import REFORMAT_OPS, takes_narrow_types
from lenet_trt.trace.accounting.slices import Slicer, on_grid
from lenet_trt.trace.timeline import Timeline

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork

SCHEMA = 1
# Term -> its name for people, in the order in which the terms are shown.
TERMS = {
    "floor_us": "floor",
    "inefficiency_us": "kernel inefficiency",
    "unjudged_us": "kernels without a floor",
    "copies_us": "copies and reformats",
    "launch_gaps_us": "launch gaps",
    "host_enqueue_us": "host enqueue",
    "residual_us": "residual",
}
# The arithmetic of products whose operands have 4 bytes.
_FLOATS = ("split", "tf32", "fp32")
_HOW_TO_GIVE_LAYERS = " (trtexec --exportLayerInfo, with --profilingVerbosity=detailed): give it beside the trace"
_TERM_OF_USE = {"copy": "copies_us", "gap": "launch_gaps_us", "host": "host_enqueue_us", "residual": "residual_us"}


@dataclass(frozen=True)
class Terms:
    """Hold the terms of one inference in microseconds; none is negative."""

    floor_us: Us = 0.0
    inefficiency_us: Us = 0.0
    unjudged_us: Us = 0.0
    copies_us: Us = 0.0
    launch_gaps_us: Us = 0.0
    host_enqueue_us: Us = 0.0
    residual_us: Us = 0.0

    def __add__(self, other: Terms) -> Terms:
        return Terms(**{entry.name: getattr(self, entry.name) + getattr(other, entry.name) for entry in fields(self)})

    @property
    def total_us(self) -> float:
        """Return the sum of the terms."""
        return sum(getattr(self, entry.name) for entry in fields(self))

    @property
    def kernel_us(self) -> float:
        """Return the time in kernels."""
        return self.floor_us + self.inefficiency_us + self.unjudged_us


@dataclass(frozen=True)
class LedgerRow:
    """Hold the time of one node, or of one layer of an engine; the row with ``node`` None has the time of no node.

    ``roof_us``: the time that the hardware needs, None where it is not known. The floor is ``roof_us``, or the kernel
    time where the kernels took even less, as they can with data in the L2 cache. ``launches``: the mean number of
    kernels per inference. ``kernels``: their names, the longest total time first. ``longest_us``: the mean time of one
    call of the longest kernel. ``nodes``: the model's nodes in the row.
    """

    node: str | None
    terms: Terms
    op: str = ""
    shapes: str = ""
    arithmetic: str = ""
    roof_us: float | None = None
    launches: float = 0.0
    longest_us: float = 0.0
    kernels: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inflation:
    """Hold the time that the profiler added: the traced inference against the same inference without a profiler."""

    unprofiled_us: Us
    added_us: Us
    share: float


@dataclass(frozen=True)
class Ledger:
    """Hold where the time went; ``total`` and the sum over ``rows`` are ``end_to_end_us``.

    ``used``: the indexes of the inferences in the means, of ``iterations`` traced ones. ``residual``: the residual by
    reason. ``floor_from``: whose ceilings the floors come from; None where there are no floors, and ``notes`` say why.
    """

    end_to_end_us: float
    total: Terms
    rows: tuple[LedgerRow, ...]
    used: tuple[int, ...]
    iterations: int
    residual: Mapping[str, float] = field(default_factory=dict)
    inflation: Inflation | None = None
    floor_from: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def floor_known(self) -> bool:
        """Say whether any kernel time has a floor."""
        return any(row.roof_us is not None for row in self.rows)

    def row(self, node: str | None) -> LedgerRow | None:
        """Return the row of a node."""
        return next((row for row in self.rows if row.node == node), None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"schema": SCHEMA, **asdict(self), "terms": dict(TERMS), "used": list(self.used)}


def ledger_of(timeline: Timeline, nodes: Sequence[NodeWork] | None = None, ceilings: Ceilings | None = None) -> Ledger:
    """Account for one inference of a timeline.

    Raises:
        LenetTrtError: the timeline holds no inference, and no work that could count as one.
    """
    notes: list[str] = []
    iterations = inferences(timeline, notes)
    used = middle_half(iterations)
    slicer = slicer_of(timeline, nodes)
    parts = [part for iteration in used for part in slicer.slices(iteration)]
    note_what_is_outside(timeline, used, notes)
    launches: dict[str | None, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for iteration in used:
        for activity in slicer.activities(iteration):
            if not slicer.is_copy(activity):
                launches[slicer.owner(activity.node)][activity.name].append(activity.us)
    sums: dict[str | None, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        sums[slicer.owner(part.node)][_TERM_OF_USE.get(part.use, "kernel_us")] += part.us
    rows = _rows(sums, launches, len(used), nodes, ceilings, notes)
    total = sum((row.terms for row in rows), Terms())
    reasons: dict[str, float] = defaultdict(float)
    for part in parts:
        if part.use == "residual" and part.why:
            reasons[part.why] += part.us / len(used)
    return Ledger(
        end_to_end_us=total.total_us,
        total=total,
        rows=tuple(rows),
        used=tuple(iteration.index for iteration in used),
        iterations=len(iterations),
        residual=dict(sorted(reasons.items(), key=lambda entry: -entry[1])),
        inflation=_inflation(timeline, total.total_us),
        floor_from=_floor_from(nodes, ceilings, notes),
        notes=tuple(notes),
    )


def slicer_of(timeline: Timeline, nodes: Sequence[NodeWork] | None) -> Slicer:
    """Make the slicer that cuts the timeline's inferences into slices."""
    reformats = {entry.node for entry in nodes or () if entry.op in REFORMAT_OPS}
    reformats |= {layer.name for layer in timeline.layers if layer.reformats and not layer.onnx}
    return Slicer(timeline, frozenset(reformats), plugin_reformats(timeline.layers))


def _rows(
    sums: Mapping[str | None, Mapping[str, float]],
    launches: Mapping[str | None, Mapping[str, Sequence[float]]],
    count: int,
    nodes: Sequence[NodeWork] | None,
    ceilings: Ceilings | None,
    notes: list[str],
) -> list[LedgerRow]:
    known = {name: members(name, nodes or ()) for name in sums if name is not None}
    everything = tuple(nodes or ())
    if everything and not any(known.values()) and None in sums:
        notes.append(
            "no kernel of the trace names a node: the kernels are compared with the floor of the whole network"
        )
    rows = []
    other_types: list[str] = []
    for name in _order(sums, known, everything):
        held = known.get(name, ()) if name is not None else () if any(known.values()) else everything
        means = {term: on_grid(value / count) for term, value in sums[name].items()}
        calls = launches.get(name, {})
        narrowed = _in_other_types(held, calls)
        roof = None if ceilings is None or not held or narrowed else _roof(held, ceilings)
        if narrowed:
            other_types.append(name or "the network")
        computes = "kernel_us" in means
        rows.append(
            LedgerRow(
                node=name,
                terms=_terms(means, roof),
                op=" + ".join(dict.fromkeys(entry.op for entry in held)) if name is not None else "",
                shapes=held[0].shapes if len(held) == 1 else "",
                arithmetic=" + ".join(dict.fromkeys(entry.arithmetic for entry in held)),
                roof_us=roof if computes else None,
                launches=sum(map(len, calls.values())) / count,
                longest_us=max(map(fmean, calls.values()), default=0.0),
                kernels=tuple(sorted(calls, key=lambda kernel: -sum(calls[kernel]))),
                nodes=tuple(node for entry in held for node in entry.model_nodes) if name is not None else (),
            )
        )
    if other_types:
        notes.append(
            f"the kernels of {', '.join(other_types)} take types of 2 bytes or less, and the model has float there: "
            f"their floor is not known without the engine's layer information{_HOW_TO_GIVE_LAYERS}"
        )
    over = [row.node for row in rows if row.roof_us is not None and row.terms.kernel_us < on_grid(row.roof_us)]
    if over:
        notes.append(
            f"faster than memory and arithmetic allow, so the data was in the L2 cache (or less was computed): "
            f"{', '.join(name or 'the kernels' for name in over)}"
        )
    return rows


def _in_other_types(held: Sequence[NodeWork], kernels: Iterable[str]) -> bool:
    """Say whether an engine computes the model's float nodes in narrower types: their floor would be too high."""
    floats = any(entry.arithmetic in _FLOATS and not entry.holds for entry in held)
    return floats and any(map(takes_narrow_types, kernels))


def _roof(held: Sequence[NodeWork], ceilings: Ceilings) -> float:
    return on_grid(floor_of(held, ceilings))


def _terms(means: dict[str, float], roof: float | None) -> Terms:
    kernel = means.pop("kernel_us", 0.0)
    if roof is None:
        return Terms(unjudged_us=kernel, **means)
    floor = min(roof, kernel)
    return Terms(floor_us=floor, inefficiency_us=kernel - floor, **means)


def _order(
    sums: Mapping[str | None, object],
    known: Mapping[str, Sequence[NodeWork]],
    nodes: Sequence[NodeWork],
) -> list[str | None]:
    """Sort the names in the model's order; other names keep their place in the trace, and no node comes last."""
    position = {entry.node: index for index, entry in enumerate(nodes)}
    named = [name for name in sums if name is not None]
    place: dict[str, float] = {}
    last = -1.0
    for name in named:
        last = float(position[known[name][0].node]) if known[name] else last
        place[name] = last
    ordered: list[str | None] = [*sorted(named, key=lambda name: place[name])]
    return [*ordered, None] if None in sums else ordered


def _inflation(timeline: Timeline, end_to_end_us: float) -> Inflation | None:
    if not timeline.unprofiled_us:
        return None
    added = end_to_end_us - timeline.unprofiled_us
    return Inflation(timeline.unprofiled_us, added, added / timeline.unprofiled_us)


def _floor_from(nodes: Sequence[NodeWork] | None, ceilings: Ceilings | None, notes: list[str]) -> str | None:
    if nodes and ceilings is not None:
        return f"{ceilings.gpu}, {'measured' if ceilings.source == 'measured' else 'from its data sheet'}"
    missing = (
        "the model or the engine's layer information, which say what has to be computed"
        if not nodes
        else "the GPU's ceilings"
    )
    notes.append(f"the floor is not known without {missing}: kernel time is one term")
    return None
