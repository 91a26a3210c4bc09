"""Write what ``tune`` found as text: how many calls gained, and each choice that differs from the declared one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean

from lenet_trt.cuda.tuning_file import TimedCall, Tuning
from lenet_trt.text_table import markdown_table

SUMMARY = ("kernel", "calls", "changed", "mean gain of these", "largest", "of all calls")
CALLS = ("kernel", "types", "sizes", "declared", "us", "tuned", "us", "gain")


def summary_table(tunings: Sequence[Tuning]) -> list[str]:
    """Return a row for each kernel: the calls that were timed, those with another variant, and their gain."""
    rows = []
    for tuning in tunings:
        gains = [call.gain for call in changed(tuning)]
        everywhere = math.exp(sum(map(math.log, gains)) / len(tuning.calls)) if tuning.calls else 1.0
        figures = (
            (f"{geometric_mean(gains):.2f}x", f"{max(gains):.2f}x", f"{everywhere:.3f}x") if gains else ("-", "-", "-")
        )
        rows.append((tuning.kernel, str(len(tuning.calls)), str(len(gains)), *figures))
    return markdown_table(SUMMARY, rows, right=range(1, len(SUMMARY)))


def calls_table(tunings: Sequence[Tuning], most: int | None = None) -> list[str]:
    """Return a row for each call with another variant than the declared one, the largest gain first."""
    found = [(tuning.kernel, call) for tuning in tunings for call in changed(tuning)]
    found.sort(key=lambda entry: -entry[1].gain)
    rows = [
        (
            *(name, call.types, call_text(call), call.declared, f"{call.variants[call.declared].median_us:.1f}"),
            *(call.tuned, f"{call.variants[call.tuned].median_us:.1f}", f"{call.gain:.2f}x"),
        )
        for name, call in found[:most]
    ]
    lines = markdown_table(CALLS, rows, right=(4, 6, 7))
    left = len(found) - len(rows)
    return [*lines, *([f"and {left} more"] if left else [])]


def changed(tuning: Tuning) -> list[TimedCall]:
    """Return the calls for which another variant than the declared one was chosen."""
    return [call for call in tuning.calls if call.tuned != call.declared]


def call_text(call: TimedCall) -> str:
    """Write the sizes and attributes of a call."""
    return " ".join(f"{name}={value}" for name, value in {**call.axes, **call.attributes}.items())
