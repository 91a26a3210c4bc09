"""Write what ``tune`` found as text: how many calls gained, and each choice that differs from the declared one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean

from lenet_trt.cuda.tuning_file import TimedCall, Tuning
from lenet_trt.text_table import markdown_table
from lenet_trt.tune.decide import faster, fastest

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
    return [*lines, *(["", f"and {left} more"] if left else [])]


def differences_table(one: Sequence[Tuning], other: Sequence[Tuning], most: int | None = None) -> list[str]:
    """Return the calls for which two GPUs have different fastest variants, and what the first's costs on the second.

    Only where each is the faster one on its own GPU beyond the noise. What was declared or tuned when the records were
    made does not count. The first line counts the calls that both have.
    """
    ours, theirs = (
        {(tuning.kernel, call_key(call)): call for tuning in tunings for call in tuning.calls}
        for tunings in (one, other)
    )
    both = [key for key in ours if key in theirs]
    rows: list[tuple[float, tuple[str, ...]]] = []
    for key in both:
        call, here = ours[key], theirs[key]
        first, second = fastest(call.variants), fastest(here.variants)
        taken, best, left = here.variants.get(first), here.variants[second], call.variants.get(second)
        # Only variants that the second GPU can run are compared; the first may lack what is best on the second.
        if taken is None or not faster(best, taken) or (left and not faster(call.variants[first], left)):
            continue
        cost = taken.median_us / best.median_us
        figures = (first, f"{taken.median_us:.1f}", second, f"{best.median_us:.1f}", f"{cost:.2f}x")
        rows.append((cost, (key[0], call.types, call_text(call), *figures)))
    rows.sort(key=lambda row: -row[0])
    names = [", ".join(dict.fromkeys(tuning.machine.gpu for tuning in each)) for each in (one, other)]
    heads = ("kernel", "types", "sizes", f"best on {names[0]}", "us", f"best on {names[1]}", "us", "cost")
    count = f"{len(rows)} of {len(both)} calls"
    lines = [f"{count} want another variant on {names[1]} than on {names[0]}; times are of {names[1]}."]
    if rows:
        lines += ["", *markdown_table(heads, [row for _, row in rows[:most]], right=(4, 6, 7))]
    return lines


def call_key(call: TimedCall) -> tuple[object, ...]:
    """Return what tells a call from the others of its kernel."""
    return call.types, tuple(sorted(call.attributes.items())), tuple(sorted(call.axes.items()))


def changed(tuning: Tuning) -> list[TimedCall]:
    """Return the calls for which another variant than the declared one was chosen."""
    return [call for call in tuning.calls if call.tuned != call.declared]


def call_text(call: TimedCall) -> str:
    """Write the sizes and attributes of a call."""
    return " ".join(f"{name}={value}" for name, value in {**call.axes, **call.attributes}.items())
