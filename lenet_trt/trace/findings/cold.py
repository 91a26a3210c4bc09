"""Find a cold start inside the measurement."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median

from lenet_trt.trace.findings.inquiry import Finding, Inquiry

# The first inferences count as cold while each takes this many times the later ones' time.
_COLD = 1.5
_LEAST_WARM = 3


def cold_start(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield a finding where the first inferences took much longer than the others and are in the mean."""
    times = [entry.us for entry in sorted(inquiry.timeline.iterations, key=lambda entry: entry.index) if entry.us > 0]
    if len(times) <= _LEAST_WARM:
        return
    usual = median(times[len(times) // 2 :])
    cold = next((at for at, us in enumerate(times) if us <= _COLD * usual), len(times))
    if cold == 0 or len(times) - cold < _LEAST_WARM:
        return
    added = fmean(times) - fmean(times[cold:])
    if not inquiry.notable(added):
        return
    first = "the first inference" if cold == 1 else f"the first {cold} inferences"
    state = "is cold" if cold == 1 else "are cold"
    yield Finding(
        "cold_start",
        f"{first} of {len(times)} {state} and part of the measurement",
        None,
        min(added, inquiry.ledger.end_to_end_us),
        (
            f"{first} took {fmean(times[:cold]):,.1f} us, the others {fmean(times[cold:]):,.1f} us: the mean over all "
            f"is {added:,.1f} us too high (the ledger leaves them out)",
        ),
        "run the network until its time is steady before measuring (modules load, caches fill, clocks rise)",
    )
