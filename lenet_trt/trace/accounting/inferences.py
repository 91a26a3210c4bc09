"""Choose the inferences of a timeline that the ledger describes."""

from __future__ import annotations

from collections.abc import Sequence

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.timeline import Iteration, Timeline


def middle_half(iterations: Sequence[Iteration]) -> list[Iteration]:
    """Return the inferences without the fastest and the slowest quarter, in their order in the trace."""
    count = len(iterations)
    cut = max(count // 4, 1) if count > 2 else 0
    ordered = sorted(iterations, key=lambda entry: (entry.us, entry.index))
    return sorted(ordered[cut : count - cut], key=lambda entry: entry.index)


def inferences(timeline: Timeline, notes: list[str]) -> list[Iteration]:
    """Return the timeline's inferences; a trace that marks none counts as one inference.

    Raises:
        LenetTrtError: there is nothing to account for.
    """
    sound = [entry for entry in timeline.iterations if entry.end_us > entry.start_us]
    if len(sound) < len(timeline.iterations):
        notes.append(f"{len(timeline.iterations) - len(sound)} inferences were left out: they end before they begin")
    if sound:
        return sound
    spans = [(entry.start_us, entry.end_us) for entry in timeline.activities]
    spans += [(entry.start_us, entry.end_us) for entry in timeline.api_calls]
    if not spans or max(end for _, end in spans) <= min(start for start, _ in spans):
        raise LenetTrtError(
            f"the trace of {timeline.source} holds no inference, and no work of the GPU: nothing can be accounted for. "
            "Trace the program while it runs the network"
        )
    notes.append("the trace marks no inferences: the whole trace counts as one")
    return [Iteration(0, min(start for start, _ in spans), max(end for _, end in spans))]


def note_what_is_outside(timeline: Timeline, used: Sequence[Iteration], notes: list[str]) -> None:
    """Add a note where inferences have work that lies outside of their time."""
    own = {entry.index: entry for entry in used}
    outside = [
        entry
        for entry in timeline.activities
        if entry.iteration in own
        and not (own[entry.iteration].start_us <= entry.start_us and entry.end_us <= own[entry.iteration].end_us)
    ]
    if outside:
        lost = sum(
            entry.us - max(min(entry.end_us, span.end_us) - max(entry.start_us, span.start_us), 0.0)
            for entry, span in ((entry, own[entry.iteration]) for entry in outside if entry.iteration is not None)
        )
        notes.append(
            f"{lost / len(used):,.1f} us of GPU work per inference lie outside of its time (it did not wait for them) "
            "and are not in the ledger"
        )
