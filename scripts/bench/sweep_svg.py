"""The picture of the sweep: time an image against the batch size, both axes logarithmic, one panel a precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench import record
from bench.record import Data

WIDTH, HEIGHT = 960, 440
PANEL_WIDTH, PANEL_HEIGHT = 384, 300
LEFT, TOP, GAP = 70, 74, 90
SUITES = ("lenet5", "sweep")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

STYLE = """
.back { fill: #ffffff } .frame { fill: none; stroke: #8a929c } path.grid { stroke: #e4e7eb }
text { fill: #24292f; font: 13px ui-sans-serif, system-ui, sans-serif } .title { font-weight: 700; font-size: 16px }
path { fill: none; stroke-width: 2.2 } path.grid { stroke-width: 1 } path.ours { stroke-width: 3.4 }
path.ours { stroke: #5b9300 } path.compiled { stroke: #b4490f } path.graph { stroke: #2f6fc4 }
path.floor { stroke: #7a828c; stroke-dasharray: 5 4 }
circle.ours { fill: #5b9300 } circle.compiled { fill: #b4490f } circle.graph { fill: #2f6fc4 }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } .frame { stroke: #7d8590 } path.grid { stroke: #262c36 } text { fill: #e6edf3 }
path.ours { stroke: #8fd400 } path.compiled { stroke: #ff9e64 } path.graph { stroke: #79b8ff }
path.floor { stroke: #9aa4b0 }
circle.ours { fill: #8fd400 } circle.compiled { fill: #ff9e64 } circle.graph { fill: #79b8ff }
}
"""


@dataclass(frozen=True)
class Series:
    """One line: how it looks, what the legend says, and where it has its times."""

    style: str
    label: str
    us: Callable[[Data], float | None]


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis of a panel: values from ``low`` to ``high`` over ``length`` pixels from ``start``."""

    low: float
    high: float
    start: float
    length: float

    def place(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + self.length * math.log(value / self.low) / math.log(self.high / self.low)


def render(data: Data) -> str | None:
    """The picture as SVG; None where the record has no sweep."""
    workloads = [w for w in data["workloads"] if w["suite"] in SUITES]
    if not any(w["suite"] == "sweep" for w in workloads):
        return None
    gpu = data["environment"]["gpu"]
    label = f"LeNet-5 on one {gpu}: microseconds an image against the batch size, ours, torch and the floor"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{label}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        *_legend(),
    ]
    points = [y for w in workloads for s in SERIES for _, y in _points([w], s)]
    bottom, top = 10.0 ** math.floor(math.log10(min(points))), 10.0 ** math.ceil(math.log10(max(points)))
    batches = [w["axes"]["n"] for w in workloads]
    for index, precision in enumerate(("fp32", "fp16")):
        x = Axis(min(batches), max(batches), LEFT + index * (PANEL_WIDTH + GAP), PANEL_WIDTH)
        y = Axis(bottom, top, TOP + PANEL_HEIGHT, -PANEL_HEIGHT)
        chosen = [w for w in workloads if w["precision"] == precision]
        lines += _panel(f"LeNet-5, {precision}, {gpu}", chosen, x, y)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _named(name: str) -> Callable[[Data], float | None]:
    def us(workload: Data) -> float | None:
        return next((float(row["us"]) for row in record.timed(workload) if row["name"] == name), None)

    return us


def _floor(workload: Data) -> float | None:
    return float(workload["floor_us"])


SERIES = (
    Series("floor", "floor", _floor),
    Series("graph", "torch, CUDA graph", _named("torch, CUDA graph")),
    Series("compiled", "torch.compile, CUDA graph", _named("torch.compile, CUDA graph")),
    Series("ours", "lenet5, one launch", _named(record.PRODUCT)),
)


def _points(workloads: Sequence[Data], series: Series) -> list[tuple[int, float]]:
    """Batch size and microseconds an image, by batch size; where a size was measured twice, the faster."""
    found: dict[int, float] = {}
    for workload in workloads:
        us, n = series.us(workload), int(workload["axes"]["n"])
        if us is not None:
            found[n] = min(us / n, found.get(n, math.inf))
    return sorted(found.items())


def _legend() -> Iterator[str]:
    x = LEFT
    for series in reversed(SERIES):
        yield f'<path class="{series.style}" d="M{x} 26h28"/>'
        yield f'<text x="{x + 36}" y="30">{series.label}</text>'
        x += 60 + 8 * len(series.label)


def _panel(title: str, workloads: Sequence[Data], x: Axis, y: Axis) -> Iterator[str]:
    yield f'<text class="title" x="{x.start}" y="{TOP - 12}">{title}</text>'
    for power in range(round(math.log10(y.low)), round(math.log10(y.high)) + 1):
        at = _pixel(y.place(10.0**power))
        yield f'<path class="grid" d="M{x.start} {at}h{x.length}"/>'
        name = f"10{str(power).translate(SUPERSCRIPTS)}" if power not in (0, 1) else str(10**power)
        yield f'<text x="{x.start - 8}" y="{at}" dy="4" text-anchor="end">{name}</text>'
    n = 1
    while n <= x.high:
        at = _pixel(x.place(n))
        yield f'<path class="grid" d="M{at} {TOP}v{PANEL_HEIGHT}"/>'
        yield f'<text x="{at}" y="{TOP + PANEL_HEIGHT + 20}" text-anchor="middle">{n}</text>'
        n *= 8
    yield f'<rect class="frame" x="{x.start}" y="{TOP}" width="{x.length}" height="{PANEL_HEIGHT}"/>'
    middle = x.start + x.length / 2
    yield f'<text x="{middle}" y="{TOP + PANEL_HEIGHT + 42}" text-anchor="middle">batch size</text>'
    yield f'<text transform="rotate(-90)" x="{-(TOP + PANEL_HEIGHT / 2)}" y="{x.start - 46}" text-anchor="middle">' + (
        "microseconds an image</text>"
    )
    for series in SERIES:
        places = [(_pixel(x.place(n)), _pixel(y.place(us))) for n, us in _points(workloads, series)]
        if not places:
            continue
        yield f'<path class="{series.style}" d="M' + "L".join(f"{a} {b}" for a, b in places) + '"/>'
        if series.style != "floor":
            yield from (f'<circle class="{series.style}" cx="{a}" cy="{b}" r="3.2"/>' for a, b in places)


def _pixel(value: float) -> str:
    return f"{value:.1f}"
