"""Hold what a kind of finding looks at, and the microseconds that it can claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lenet_trt.trace.ledger import slicer_of
from lenet_trt.trace.timeline import Activity, Iteration

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork
    from lenet_trt.trace.accounting.slices import Slice
    from lenet_trt.trace.ledger import Ledger, LedgerRow
    from lenet_trt.trace.timeline import Timeline

# Less than this is no finding: clocks are not more exact, and a smaller share is not worth the work.
_LEAST_US = 1.0
_LEAST_SHARE = 0.02
# The assumed cost of a launch where the ceilings do not give it; measured launches cost 2 to 3 us.
_USUAL_LAUNCH_US = 2.5
# A kernel is small when it takes no longer than this many launches.
_SMALL_LAUNCHES = 4


@dataclass(frozen=True)
class Finding:
    """Hold something that costs time: its node (None: the whole), the time to win back, the evidence and the advice."""

    kind: str
    title: str
    node: str | None
    recoverable_us: float
    evidence: tuple[str, ...]
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "evidence": list(self.evidence)}


class Inquiry:
    """Hold a timeline with its ledger, and the part of the ledger that no finding has claimed yet."""

    def __init__(
        self,
        timeline: Timeline,
        ledger: Ledger,
        nodes: tuple[NodeWork, ...],
        ceilings: Ceilings | None,
        replaceable: Mapping[str, str],
    ) -> None:
        self.timeline, self.ledger, self.nodes, self.ceilings = timeline, ledger, nodes, ceilings
        self.slicer = slicer_of(timeline, nodes)
        self._replaceable = replaceable
        self._left: dict[tuple[str, str | None], float] = {
            (term, row.node): getattr(row.terms, term)
            for row in ledger.rows
            for term in ("inefficiency_us", "unjudged_us", "copies_us", "launch_gaps_us", "host_enqueue_us")
        }

    @cached_property
    def used(self) -> list[Iteration]:
        """Return the inferences that the ledger describes."""
        wanted = set(self.ledger.used)
        found = [entry for entry in self.timeline.iterations if entry.index in wanted and entry.end_us > entry.start_us]
        if found:
            return found
        times = [at for entry in self.timeline.activities for at in (entry.start_us, entry.end_us)]
        times += [at for entry in self.timeline.api_calls for at in (entry.start_us, entry.end_us)]
        return [Iteration(0, min(times), max(times))]

    @cached_property
    def slices(self) -> list[list[Slice]]:
        """Return the slices of each of these inferences."""
        return [self.slicer.slices(iteration) for iteration in self.used]

    @cached_property
    def activities(self) -> list[list[Activity]]:
        """Return what ran for each of these inferences, in order."""
        return [self.slicer.activities(iteration) for iteration in self.used]

    @cached_property
    def exposed(self) -> list[dict[int, float]]:
        """Return, for each inference, how long each activity (by ``id``) owned the moment: its cost."""
        result = []
        for parts in self.slices:
            times: dict[int, float] = defaultdict(float)
            for part in parts:
                if part.use in ("kernel", "copy"):
                    times[id(part.activity)] += part.us
            result.append(times)
        return result

    @property
    def launch_us(self) -> float:
        """Return the least cost of a launch."""
        measured = self.ceilings.launch_us if self.ceilings else 0.0  # a data sheet does not say
        return measured or _USUAL_LAUNCH_US

    @property
    def small_us(self) -> float:
        """Return the longest time of a small kernel, which mostly waits for its launch and for memory."""
        return _SMALL_LAUNCHES * self.launch_us

    @property
    def sm(self) -> int | None:
        """Return the GPU's architecture, such as 90 for compute capability 9.0."""
        if self.ceilings is not None and self.ceilings.sm:
            return self.ceilings.sm
        return self.timeline.architecture

    def notable(self, us: float, share: float = _LEAST_SHARE) -> bool:
        """Say whether a time is worth a finding: at least a microsecond, and 2% (or ``share``) of the inference."""
        return us >= max(_LEAST_US, share * self.ledger.end_to_end_us)

    def members(self, row: LedgerRow) -> list[NodeWork]:
        """Return the model's nodes in a row; all nodes where the trace names none."""
        if row.node is None:
            return list(self.nodes)
        return [entry for entry in self.nodes if not set(row.nodes).isdisjoint(entry.model_nodes)]

    def replacement(self, row: LedgerRow) -> str | None:
        """Return the kernel of this toolkit that could replace a node of the row."""
        nodes = [node for entry in self.members(row) for node in entry.model_nodes]
        return next((self._replaceable[node] for node in nodes if node in self._replaceable), None)

    @property
    def fusable(self) -> bool:
        """Say whether any of this toolkit's kernels has a place in the model."""
        return bool(self._replaceable)

    def left(self, term: str, node: str | None) -> float:
        """Return the part of a row's term that no finding has claimed."""
        return self._left.get((term, self.slicer.owner(node)), 0.0)

    def left_in_all(self, term: str) -> float:
        """Return the part of a term that no finding has claimed, over all rows."""
        return sum(value for (name, _), value in self._left.items() if name == term)

    def claim(self, term: str, wanted: Mapping[str | None, float]) -> float:
        """Claim these microseconds of the term from each row, as far as they are left; return what was claimed."""
        taken = 0.0
        for node, us in wanted.items():
            got = min(max(us, 0.0), self.left(term, node))
            self._left[(term, self.slicer.owner(node))] = self.left(term, node) - got
            taken += got
        return taken

    def claim_if_notable(self, term: str, wanted: Mapping[str | None, float]) -> float:
        """Claim time that is worth a finding, and return it; return 0 where it is not, or where too little is left."""
        if not self.notable(sum(wanted.values())):
            return 0.0
        taken = self.claim(term, wanted)
        return taken if self.notable(taken) else 0.0

    def claim_share(self, term: str, us: float) -> float:
        """Claim these microseconds of the term from all rows, in proportion to what is left in them."""
        everything = self.left_in_all(term)
        share = min(us / everything, 1.0) if everything > 0 else 0.0
        nodes: Sequence[str | None] = [node for name, node in self._left if name == term]
        return self.claim(term, {node: share * self.left(term, node) for node in nodes})
