"""Turn a timeline into rows of bars for the page: each name is stored once, overlapping bars have their own lanes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lenet_trt.draw.text import bytes_text, visible
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline

# More bars are slow to draw and make the page too large to send: whole inferences are left out then.
MOST_BARS = 40_000
MOST_LANES = 8


@dataclass(frozen=True)
class Bar:
    """Hold one bar: what happened, when, and its details. ``link`` joins a call with the work that it submitted."""

    start_us: float
    end_us: float
    name: str
    kind: str
    node: str = ""
    detail: str = ""
    link: int | None = None


@dataclass
class _Names:
    """Store every text once; a text is named by its index."""

    places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        return self.places.setdefault(visible(text), len(self.places))


def typical_iteration(timeline: Timeline) -> Iteration | None:
    """Return the inference whose time is nearest to the median of all; of equals, the first."""
    if not timeline.iterations:
        return None
    median = statistics.median(one.us for one in timeline.iterations)
    return min(timeline.iterations, key=lambda one: abs(one.us - median))


def shown_window(timeline: Timeline, most: int = MOST_BARS) -> tuple[float, float] | None:
    """Return the span whose bars are shown: None for all, else whole inferences around the typical one."""
    starts = sorted(one.start_us for one in _events(timeline))
    if len(starts) <= most:
        return None
    typical = typical_iteration(timeline)
    if typical is None:
        return starts[0], starts[most]
    rows = sorted(timeline.iterations, key=lambda one: one.start_us)
    low = high = rows.index(typical)
    while (low, high) != (0, len(rows) - 1):
        wider = max(0, low - 1), min(len(rows) - 1, high + 1)
        first, last = rows[wider[0]].start_us, rows[wider[1]].end_us
        if sum(first <= start <= last for start in starts) > most:
            break
        low, high = wider
    return rows[low].start_us, rows[high].end_us


def drawn_events(timeline: Timeline, most: int = MOST_BARS) -> dict[str, Any]:
    """Return what the page's script draws: rows of lanes of bars, as numbers into one list of names.

    A bar is [start, length, name, kind, node, detail, link], with times in microseconds; -1 stands for a missing value.
    """
    window = shown_window(timeline, most)
    names = _Names()
    rows = [
        {"label": label, "group": group, "lanes": _lanes(_inside(bars, window)[:most], names)}
        for label, group, bars in _rows(timeline)
    ]
    shown = sum(len(lane) for row in rows for lane in row["lanes"])
    typical = typical_iteration(timeline)
    return {
        "names": list(names.places),
        "rows": [row for row in rows if row["lanes"]],
        "iterations": [
            [one.index, round(one.start_us, 3), round(one.end_us, 3)]
            for one in timeline.iterations
            if window is None or window[0] <= one.start_us <= window[1]
        ],
        "typical": None if typical is None else typical.index,
        "shown": shown,
        "total": sum(1 for _ in _events(timeline)),
    }


def activity_detail(activity: Activity) -> str:
    """Return what a trace says of a piece of GPU work beside its name and time."""
    parts = []
    if activity.direction:
        parts.append(activity.direction)
    if activity.bytes is not None:
        parts.append(bytes_text(activity.bytes))
        if activity.us > 0:
            parts.append(f"{activity.bytes / activity.us / 1e3:.3g} GB/s")
    if activity.grid:
        parts.append(f"grid {'x'.join(map(str, activity.grid))}")
    if activity.block:
        parts.append(f"block {'x'.join(map(str, activity.block))}")
    if activity.registers is not None:
        parts.append(f"{activity.registers} registers a thread")
    if activity.shared_bytes:
        parts.append(f"{activity.shared_bytes:,} B shared memory")
    return ", ".join(parts)


def _events(timeline: Timeline) -> Iterable[Activity | ApiCall | HostRange]:
    yield from timeline.activities
    yield from timeline.api_calls
    yield from timeline.ranges


def _rows(timeline: Timeline) -> Iterable[tuple[str, str, list[Bar]]]:
    for label, group, bars in (
        ("Ranges (NVTX)", "range", [(one.thread, _range_bar(one)) for one in timeline.ranges]),
        ("Host: CUDA calls", "host", [(one.thread, _call_bar(one)) for one in timeline.api_calls]),
    ):
        threads = sorted({thread for thread, _ in bars})
        for thread in threads:
            said = f", thread {thread}" if len(threads) > 1 else ""
            yield f"{label}{said}", group, [bar for other, bar in bars if other == thread]
    busy: dict[int, float] = {}
    for one in timeline.activities:
        busy[one.stream] = busy.get(one.stream, 0.0) + one.us
    for stream in sorted(busy, key=lambda stream: (-busy[stream], stream)):
        work = [_activity_bar(one) for one in timeline.activities if one.stream == stream]
        layers = all(bar.kind == "layer" for bar in work)
        yield "Layers" if layers and len(busy) == 1 else f"GPU: stream {stream}", "gpu", work


def _range_bar(one: HostRange) -> Bar:
    return Bar(one.start_us, one.end_us, one.name, "range")


def _call_bar(one: ApiCall) -> Bar:
    kind = "wait" if "ynchronize" in one.name else "call"
    return Bar(one.start_us, one.end_us, one.name, kind, link=one.correlation)


def _activity_bar(one: Activity) -> Bar:
    return Bar(one.start_us, one.end_us, one.name, one.kind, one.node or "", activity_detail(one), one.correlation)


def _inside(bars: list[Bar], window: tuple[float, float] | None) -> list[Bar]:
    return bars if window is None else [bar for bar in bars if window[0] <= bar.start_us <= window[1]]


def _lanes(bars: Sequence[Bar], names: _Names) -> list[list[list[float]]]:
    """Put each bar into the first free lane, longer bars first: nested ranges lie below each other."""
    lanes: list[list[list[float]]] = []
    ends: list[float] = []
    for bar in sorted(bars, key=lambda one: (one.start_us, -one.end_us)):
        free = next((place for place, end in enumerate(ends) if end <= bar.start_us + 1e-9), None)
        if free is None and len(lanes) < MOST_LANES:
            free = len(lanes)
            lanes.append([])
            ends.append(bar.end_us)
        elif free is None:
            free = MOST_LANES - 1
        ends[free] = max(ends[free], bar.end_us)
        lanes[free].append(_numbers(bar, names))
    return lanes


def _numbers(bar: Bar, names: _Names) -> list[float]:
    return [
        round(bar.start_us, 3),
        round(bar.end_us - bar.start_us, 3),
        names.place(bar.name),
        names.place(bar.kind),
        names.place(bar.node) if bar.node else -1,
        names.place(bar.detail) if bar.detail else -1,
        -1 if bar.link is None else bar.link,
    ]
