"""Make findings: what could be won back, how much of it, by which evidence, and what to do.

No two findings claim the same microseconds. Each finding takes its microseconds out of the ledger's terms (a node's
inefficiency, the gaps before it, the copies, the host's time). More specific kinds come first, and a later kind can
claim only what is left; so all findings together never promise more than end to end minus floor. Advice names what
exists: a kernel of this toolkit only for nodes that it can replace (``replaceable``). A node whose kernel has several
faults gets one finding, of the most specific kind, with the other faults among its evidence. A cold start is the
exception: it is not in the ledger, which leaves the slowest inferences out, and its number is what it adds to the mean
over all inferences. Time below the threshold (``Inquiry.notable``) is no finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lenet_trt.trace.findings.cold import cold_start
from lenet_trt.trace.findings.inquiry import Finding, Inquiry
from lenet_trt.trace.findings.kernels import far_kernels
from lenet_trt.trace.findings.launches import gaps, host_bound, many_small_launches, sync_in_loop
from lenet_trt.trace.findings.movement import copies_that_could_stay, reformat_pairs
from lenet_trt.trace.findings.quantized import quantization

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork
    from lenet_trt.trace.ledger import Ledger
    from lenet_trt.trace.timeline import Timeline

__all__ = ["Finding", "findings_of", "none_found", "not_judged"]

_MOST_NAMES = 3
# The kinds in the order in which they claim time; each kind sees only what the kinds before it left.
_KINDS = (
    quantization,
    far_kernels,
    many_small_launches,
    sync_in_loop,
    host_bound,
    gaps,
    reformat_pairs,
    copies_that_could_stay,
    cold_start,
)


def findings_of(
    timeline: Timeline,
    ledger: Ledger,
    nodes: Sequence[NodeWork] | None = None,
    ceilings: Ceilings | None = None,
    replaceable: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return what could be won back, the largest first; ``not_judged`` returns what no finding can cover.

    ``replaceable`` has the kernel of this toolkit for each of the model's nodes that one could replace.
    """
    inquiry = Inquiry(timeline, ledger, tuple(nodes or ()), ceilings, replaceable or {})
    found = [finding for kind in _KINDS for finding in kind(inquiry)]
    return sorted(found, key=lambda entry: -entry.recoverable_us)


def not_judged(timeline: Timeline, ledger: Ledger) -> list[str]:
    """Return what could be lost without a finding that says so, and why; empty where everything was judged."""
    found = []
    blind = ledger.total.unjudged_us
    if blind > 0:
        rows = [row.node or "no node" for row in ledger.rows if row.terms.unjudged_us]
        share = f" ({blind / ledger.end_to_end_us:.0%} of the inference)" if ledger.end_to_end_us else ""
        more = f" and {len(rows) - _MOST_NAMES} more" if len(rows) > _MOST_NAMES else ""
        named = ", ".join(rows[:_MOST_NAMES])
        found.append(f"{blind:,.1f} us in kernels{share}, whose floor is not known: {named}{more}")
    if timeline.activities and all(entry.kind == "layer" for entry in timeline.activities if entry.kind != "memcpy"):
        found.append("launches, and gaps between kernels: the trace has times of layers alone")
    elif not timeline.api_calls:
        found.append("what the host did: the trace has no calls of it")
    return found


def none_found(unjudged: Sequence[str]) -> str:
    """Return the text for no finding; it says that nothing is lost only where everything was judged."""
    if unjudged:
        return "None in what could be judged. Not everything could be:"
    return "None: all of it was judged, and no part is lost that is worth a change."
