"""Findings: what could be won back, how much of it, by which evidence, and what to do.

No two findings claim the same microseconds. Each takes what it claims out of the ledger's terms (a node's
inefficiency, the gaps before it, the copies, the host's time), the more specific kind first, and a later one can only
have what is left; so all of them together never promise more than end to end less the floor. A node whose kernel has
several faults gets one finding, of the most specific kind, with the others among its evidence. A cold start alone is
outside of this: it is not in the ledger, which leaves the slowest inferences out, and its number is what it adds to
the mean over all of them. What is below the threshold (``Case.notable``) is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lenet_trt.trace.findings.case import Case, Finding
from lenet_trt.trace.findings.cold import cold_start
from lenet_trt.trace.findings.kernels import far_kernels
from lenet_trt.trace.findings.launches import gaps, host_bound, many_small_launches, sync_in_loop
from lenet_trt.trace.findings.movement import copies_that_could_stay, reformat_pairs

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork
    from lenet_trt.trace.ledger import Ledger
    from lenet_trt.trace.timeline import Timeline

__all__ = ["Finding", "findings", "lines"]

# In the order in which they claim; a kind sees only what those before it left.
_KINDS = (
    far_kernels,
    many_small_launches,
    sync_in_loop,
    host_bound,
    gaps,
    reformat_pairs,
    copies_that_could_stay,
    cold_start,
)


def findings(
    timeline: Timeline,
    ledger: Ledger,
    nodes: Sequence[NodeWork] | None = None,
    ceilings: Ceilings | None = None,
) -> list[Finding]:
    """What could be won back, the largest first; empty where nothing is lost that anything could be done about."""
    case = Case(timeline, ledger, tuple(nodes or ()), ceilings)
    found = [finding for kind in _KINDS for finding in kind(case)]
    return sorted(found, key=lambda entry: -entry.recoverable_us)


def lines(found: Sequence[Finding]) -> list[str]:
    """What people read."""
    if not found:
        return ["no findings: nothing is lost that could be won back"]
    out = []
    for number, entry in enumerate(found, 1):
        out.append(f"{number}. {entry.title}: {entry.recoverable_us:,.1f} us")
        out += [f"   {line}" for line in entry.evidence]
        out.append(f"   do: {entry.advice}")
    return out
