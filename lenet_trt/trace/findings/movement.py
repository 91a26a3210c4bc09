"""Find data that is copied or put into another layout without need."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lenet_trt.trace.findings.inquiry import Finding, Inquiry
from lenet_trt.trace.timeline import Activity

_LAYOUTS = (
    re.compile(r"nchw.*?to.*?nhwc", re.IGNORECASE),
    re.compile(r"nhwc.*?to.*?nchw", re.IGNORECASE),
)
_ENGINE = re.compile(r"Reformatting CopyNode for (Input|Output) Tensor \d+ to (.+)")


def reformat_pairs(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding for a reformat that a later one undoes: the layer between needs another layout."""
    cost: dict[str | None, float] = defaultdict(float)
    seen: dict[str, int] = defaultdict(int)
    for activities, exposed in zip(inquiry.activities, inquiry.exposed, strict=True):
        reformats = [entry for entry in activities if inquiry.slicer.is_reformat(entry)]
        for before, after in _pairs(reformats):
            for entry in (before, after):
                cost[entry.node] += exposed[id(entry)] / len(inquiry.used)
            seen[f"{before.name} ... {after.name}"] += 1
    claimed = inquiry.claim_if_notable("copies_us", cost)
    if not claimed:
        return
    yield Finding(
        "reformat_pair",
        "data is put into another layout and back",
        None,
        claimed,
        tuple(f"{count / len(inquiry.used):.0f} per inference: {pair[:160]}" for pair, count in seen.items()),
        "keep one layout through the neighbours (channels_last in torch, a format that the plugin takes in TensorRT), "
        "or fuse the layer with them",
    )


def _pairs(reformats: Sequence[Activity]) -> Iterator[tuple[Activity, Activity]]:
    """Yield each reformat with the next one that undoes it; no reformat is in two pairs."""
    waiting: list[Activity] = []
    for entry in reformats:
        found = next((before for before in waiting if _undoes(before.name, entry.name)), None)
        if found is None:
            waiting.append(entry)
        else:
            waiting.remove(found)
            yield found, entry


def _undoes(before: str, after: str) -> bool:
    one, other = _ENGINE.match(before), _ENGINE.match(after)
    if one and other:
        return (one[1], other[1]) == ("Input", "Output") and one[2] == other[2]
    there, back = _LAYOUTS
    return bool((there.search(before) and back.search(after)) or (back.search(before) and there.search(after)))


def copies_that_could_stay(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding for copies to the host and back, within the network, and within the GPU."""
    reasons = {
        "to the host and back": _round_trips,
        "to or from the host in the middle of the network": _in_the_middle,
        "from one place of the GPU's memory to another": _on_the_gpu,
    }
    cost: dict[str | None, float] = defaultdict(float)
    evidence = []
    counted: set[int] = set()
    for reason, find in reasons.items():
        size = times = 0
        us = 0.0
        for activities, exposed in zip(inquiry.activities, inquiry.exposed, strict=True):
            for entry in find(inquiry, activities):
                if id(entry) in counted:
                    continue
                counted.add(id(entry))
                spent = exposed[id(entry)] / len(inquiry.used)
                cost[entry.node] += spent
                us += spent
                times += 1
                size += entry.bytes or 0
        if times:
            moved = f", {size / len(inquiry.used):,.0f} bytes" if size else ""
            evidence.append(f"{times / len(inquiry.used):.1f} copies per inference {reason}: {us:,.1f} us{moved}")
    claimed = inquiry.claim_if_notable("copies_us", cost)
    if not claimed:
        return
    yield Finding(
        "copies",
        "copies of data that could stay where it is",
        None,
        claimed,
        tuple(evidence),
        "keep intermediate results on the GPU and write results where the next layer reads them",
    )


def _round_trips(inquiry: Inquiry, activities: Sequence[Activity]) -> Iterator[Activity]:
    left: list[Activity] = []
    for entry in activities:
        if entry.kind != "memcpy" or not entry.bytes:
            continue
        if entry.direction == "DtoH":
            left.append(entry)
        elif entry.direction == "HtoD":
            back = next((away for away in left if away.bytes == entry.bytes and away.end_us <= entry.start_us), None)
            if back is not None:
                left.remove(back)
                yield back
                yield entry


def _in_the_middle(inquiry: Inquiry, activities: Sequence[Activity]) -> Iterator[Activity]:
    kernels = [entry for entry in activities if entry.kind in ("kernel", "layer")]
    if not kernels:
        return
    begin, end = kernels[0].start_us, max(entry.start_us for entry in kernels)
    for entry in activities:
        late_input = entry.direction == "HtoD" and entry.start_us > begin
        early_output = entry.direction == "DtoH" and entry.start_us < end
        if entry.kind == "memcpy" and (late_input or early_output):
            yield entry


def _on_the_gpu(inquiry: Inquiry, activities: Sequence[Activity]) -> Iterator[Activity]:
    return (entry for entry in activities if entry.kind == "memcpy" and entry.direction == "DtoD")
