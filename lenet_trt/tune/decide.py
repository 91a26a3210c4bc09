"""Decide from the times of a ladder which variant replaces the declared one, and for which sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isqrt

from lenet_trt.cuda.statistics import Stats, differ
from lenet_trt.cuda.tuning_file import Times
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.tune.ladders import Ladder

# A smaller gain is worth no exception from what is declared.
LEAST_GAIN = 1.03


def fastest(times: Mapping[str, Stats | Times]) -> str:
    """Return the variant with the least median."""
    return min(times, key=lambda name: times[name].median_us)


def faster(one: Stats | Times, other: Stats | Times) -> bool:
    """Return whether the intervals of two medians do not overlap, and the gain of the first one would matter."""
    return one.high_us < other.low_us and one.median_us * LEAST_GAIN <= other.median_us


def challenger(times: Mapping[str, Stats], declared: str) -> str | None:
    """Return the variant that is worth a longer comparison with the declared one, or None.

    That is the fastest, where the intervals of the two medians do not overlap and the gain would matter.
    """
    if declared not in times:
        return None
    best = fastest(times)
    return best if faster(times[best], times[declared]) else None


def beats(a: Stats, b: Stats) -> bool:
    """Return whether a is faster than b beyond the noise, and by enough to matter."""
    return a.median_us * LEAST_GAIN <= b.median_us and differ(a, b)


def choices(
    ladder: Ladder, tuned: Mapping[int, str], timed: Sequence[int], declared: Callable[[int], str]
) -> list[TunedChoice]:
    """Return the choices that follow from a ladder.

    ``tuned``: the variant that won at a size of the free axis, where it is not the declared one. ``timed``: all sizes
    that were timed, rising. ``declared``: the variant that the declaration chooses at a size.

    A choice holds half-way to the next sizes that were timed, and only as far as the declaration chooses what was
    beaten: of other sizes nothing is known.
    """
    found: list[TunedChoice] = []
    for index, size in enumerate(timed):
        if size not in tuned:
            continue
        low = isqrt(timed[index - 1] * size) + 1 if index else size
        high = isqrt(size * timed[index + 1]) if index + 1 < len(timed) else size

        def same(other: int, beaten: str = declared(size)) -> bool:
            return declared(other) == beaten

        choice = TunedChoice(
            types=ladder.types.name,
            attributes=ladder.attributes,
            axes=ladder.fixed,
            free=ladder.free,
            least=_edge(size, low, same),
            most=_edge(size, high, same),
            variant=tuned[size],
        )
        before = found[-1] if found else None
        if before is not None and before.variant == choice.variant and before.most + 1 == choice.least:
            found[-1] = replace(before, most=choice.most)
        else:
            found.append(choice)
    return found


def _edge(inside: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the last size from ``inside`` towards ``end`` at which ``holds``; it holds at ``inside``."""
    if holds(end):
        return end
    good, bad = inside, end
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good
