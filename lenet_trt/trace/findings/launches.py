"""Find time that is lost between kernels: small launches, gaps, waiting in the middle, a late host."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from lenet_trt.errors import documentation
from lenet_trt.trace.findings.inquiry import Finding, Inquiry
from lenet_trt.trace.timeline import ApiCall

# From this number on, small kernels or submissions of one inference count as many.
_MANY = 4
# The cost of a separate kernel: it begins, waits for memory and drains. Fusing it saves at most this.
_OWN_COST_US = 2.0
_GAP_SHARE = 0.05
_HOST_SHARE = 0.10
_WAITS = re.compile(r"synchronize|^cu(da)?memcpy(?!.*async)", re.IGNORECASE)


@dataclass(frozen=True)
class _Small:
    """Hold the small kernels of an inference, as means: their number, their time, and the gaps before them."""

    count: float
    median_us: float
    cost: Mapping[str | None, float]
    gaps: Mapping[str | None, float]


def many_small_launches(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding where kernels are so short that beginning and ending them takes most of their time."""
    small = _small(inquiry)
    if small.count < _MANY:
        return
    known = {node: inquiry.left("inefficiency_us", node) for node in small.cost}
    kernels = inquiry.claim("inefficiency_us", {node: us for node, us in small.cost.items() if known[node]})
    kernels += inquiry.claim("unjudged_us", {node: us for node, us in small.cost.items() if not known[node]})
    between = inquiry.claim("launch_gaps_us", small.gaps)
    if not inquiry.notable(kernels + between):
        return
    yield Finding(
        "many_small_launches",
        f"{small.count:.0f} small kernels per inference",
        None,
        kernels + between,
        (
            f"{small.count:.0f} kernels of {inquiry.small_us:.1f} us or less; one takes {small.median_us:.1f} us",
            f"{kernels:,.1f} us to begin and end kernels that could be one, {between:,.1f} us in the gaps between them",
        ),
        "fuse them: lenet-trt fuse puts one plugin in the place of several layers, and lenet-trt optimize measures "
        "which pay off"
        if inquiry.fusable
        else f"fuse them: write one kernel for several layers ({documentation('write-a-plugin')}), or take a library "
        "that does",
    )


def _small(inquiry: Inquiry) -> _Small:
    cost: dict[str | None, float] = defaultdict(float)
    gaps: dict[str | None, float] = defaultdict(float)
    durations = []
    count = len(inquiry.used)
    for activities, exposed, parts in zip(inquiry.activities, inquiry.exposed, inquiry.slices, strict=True):
        kernels = [entry for entry in activities if entry.kind == "kernel"]
        small = [entry for entry in kernels if entry.us <= inquiry.small_us]
        durations += [entry.us for entry in small]
        for entry in small[1:]:  # one kernel remains
            cost[entry.node] += min(exposed[id(entry)], _OWN_COST_US) / count
        short = {id(entry) for entry in small}
        first = id(kernels[0]) if kernels else None
        for part in parts:
            if part.use == "gap" and id(part.activity) in short and id(part.activity) != first:
                gaps[part.node] += part.us / count
    ordered = sorted(durations)
    return _Small(len(durations) / count, ordered[len(ordered) // 2] if ordered else 0.0, cost, gaps)


def sync_in_loop(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding where the host waits for the GPU within an inference, and then the GPU waits for the host."""
    waits = [call for call in inquiry.timeline.api_calls if _WAITS.search(call.name)]
    lost: dict[str | None, float] = defaultdict(float)
    times, names = 0, set()
    for iteration, parts in zip(inquiry.used, inquiry.slices, strict=True):
        begun = False
        near = [call for call in waits if call.start_us < iteration.end_us and call.end_us > iteration.start_us]
        for part in parts:
            if part.use == "host" and begun:
                waited = [call for call in near if call.start_us < part.end_us and call.end_us > part.start_us]
                if waited:
                    lost[part.node] += part.us / len(inquiry.used)
                    times += 1
                    names |= {call.name for call in waited}
            begun = begun or part.use in ("kernel", "copy")
    if not inquiry.notable(sum(min(us, inquiry.left("host_enqueue_us", node)) for node, us in lost.items())):
        return
    yield Finding(
        "sync_in_loop",
        "the host waits in the middle of the inference",
        None,
        inquiry.claim("host_enqueue_us", lost),
        (
            f"{times / len(inquiry.used):.1f} times per inference, in {', '.join(sorted(names))}: the GPU is done, and "
            "the host submits the next work only after it has seen that",
        ),
        "wait once, at the end: keep results in between on the GPU, use cudaMemcpyAsync with pinned memory, and let "
        "streams and events order the work",
    )


def host_bound(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding where the GPU is idle because the host has not yet submitted the next work."""
    calls = _submissions(inquiry)
    count = len(calls) / len(inquiry.used)
    if count < _MANY:
        return
    one = max(fmean(call.us for call in calls), inquiry.launch_us)
    wanted = inquiry.left_in_all("host_enqueue_us") - one
    if not inquiry.notable(wanted, _HOST_SHARE):
        return
    yield Finding(
        "host_bound",
        "the GPU waits for the host to submit work",
        None,
        inquiry.claim_share("host_enqueue_us", wanted),
        (
            f"{count:.0f} submissions per inference, {fmean(call.us for call in calls):.1f} us each; the GPU was idle "
            f"for {inquiry.ledger.total.host_enqueue_us:,.1f} us until they came",
        ),
        "capture the inference in a CUDA graph (one submission; lenet-trt run --runtime graph does), or submit the "
        "next inference before this one is done",
    )


def _submissions(inquiry: Inquiry) -> list[ApiCall]:
    """Return the calls that submitted kernels: one for each launch, or one for a whole CUDA graph."""
    found: dict[int, ApiCall] = {}
    for activities in inquiry.activities:
        for entry in activities:
            call = inquiry.slicer.submission(entry) if entry.kind == "kernel" else None
            if call is not None:
                found[id(call)] = call
    return list(found.values())


def gaps(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding where the GPU is idle for longer than a launch takes, with work already submitted."""
    calls = {id(call) for entry in chain(*inquiry.activities) if (call := inquiry.slicer.submission(entry)) is not None}
    waits = max(len(calls) / len(inquiry.used), 1.0)
    wanted = inquiry.left_in_all("launch_gaps_us") - waits * inquiry.launch_us
    if not inquiry.notable(wanted, _GAP_SHARE):
        return
    parts = [part for found in inquiry.slices for part in found if part.use == "gap"]
    longest = max(parts, key=lambda part: part.us)
    awaited = longest.activity.name if longest.activity else "the end"
    yield Finding(
        "gaps",
        "the GPU is idle between kernels that were already submitted",
        None,
        inquiry.claim_share("launch_gaps_us", wanted),
        (
            f"{len(parts) / len(inquiry.used):.1f} gaps per inference, "
            f"{inquiry.ledger.total.launch_gaps_us:,.1f} us in all; one launch takes {inquiry.launch_us:.1f} us, "
            f"and there are {waits:.0f} submissions",
            f"the longest, {longest.us:,.1f} us, is before {longest.node or awaited}",
        ),
        f"fewer and larger kernels{' (lenet-trt fuse)' if inquiry.fusable else ''}, a CUDA graph, and no waiting for "
        "events of other streams",
    )
