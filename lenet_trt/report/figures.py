"""Draw the report's pictures without any style attribute: the ledger as a stacked bar, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from lenet_trt.draw.elements import Markup, element
from lenet_trt.draw.text import ratio_text, share_text, short, time_text
from lenet_trt.floors.floor import Ceilings
from lenet_trt.report.content import RooflinePoint
from lenet_trt.trace.ledger import TERMS, Ledger

# Term -> CSS class of its colour.
COLOURS = {
    "floor_us": "t-floor",
    "inefficiency_us": "t-kernels",
    "unjudged_us": "t-unjudged",
    "copies_us": "t-copies",
    "launch_gaps_us": "t-gaps",
    "host_enqueue_us": "t-enqueue",
    "residual_us": "t-residual",
}
_WIDTH, _HEIGHT = 900, 470
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 18, 50
# A node that reaches this share of its roof is fine.
_NEAR = 0.7
_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def swatch(colour: str) -> Markup:
    """Draw a small square in a colour, for legends."""
    square = element("rect", width="100%", height="100%", rx=2)
    return element("svg", square, class_=f"swatch {colour}", aria_hidden="true")


def stacked_bar(ledger: Ledger, label: str, longest_us: float | None = None) -> Markup:
    """Draw the terms side by side; their widths are shares of the longest of the compared bars."""
    whole = longest_us or ledger.end_to_end_us or 1.0
    parts: list[Markup] = []
    at = 0.0
    for term, name in TERMS.items():
        share = getattr(ledger.total, term) / whole
        if share <= 0:
            continue
        title = f"{name}: {time_text(share * whole)}, {share_text(share * whole / ledger.end_to_end_us)}"
        place = {"x": f"{100 * at:.3f}%", "width": f"{100 * share:.3f}%"}
        parts.append(
            element("g", element("title", title), element("rect", y=0, height="100%", class_=COLOURS[term], **place))
        )
        if share > 0.05 + 0.009 * len(name):
            middle = f"{100 * (at + share / 2):.3f}%"
            parts.append(element("text", name, x=middle, y="44%", text_anchor="middle"))
            parts.append(element("text", time_text(share * whole), x=middle, y="78%", text_anchor="middle"))
        elif share > 0.07:
            middle = f"{100 * (at + share / 2):.3f}%"
            parts.append(element("text", time_text(share * whole), x=middle, y="60%", text_anchor="middle"))
        at += share
    said = "; ".join(f"{name} {time_text(getattr(ledger.total, term))}" for term, name in TERMS.items())
    return element("svg", *parts, class_="bar", role="img", aria_label=f"{label}: {said}")


def meter(share: float) -> Markup:
    """Draw a share as a small bar beside its number."""
    width = f"{100 * min(1.0, max(0.0, share)):.1f}%"
    return element(
        "svg",
        element("rect", width="100%", height="100%", rx=3, class_="back"),
        element("rect", width=width, height="100%", rx=3, class_="fore"),
        class_="meter",
        aria_hidden="true",
    )


class _Axes:
    """Hold logarithmic axes that contain all points and the bend of every roof."""

    def __init__(self, points: Sequence[RooflinePoint], ceilings: Ceilings) -> None:
        bends = [ceilings.rate(a) / ceilings.read_bytes_per_s for a in _arithmetics(points)]
        xs = [point.intensity for point in points] + bends
        ys = [rate for point in points for rate in (point.flops / point.taken_us * 1e6, roof_rate(point))]
        ys += [ceilings.rate(a) for a in _arithmetics(points)]
        self.low_x, self.high_x = min(xs) / 2.5, max(xs) * 4
        self.low_y, self.high_y = min(ys) / 2, max(ys) * 2.5

    def x(self, intensity: float) -> float:
        share = math.log10(intensity / self.low_x) / math.log10(self.high_x / self.low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        share = math.log10(rate / self.low_y) / math.log10(self.high_y / self.low_y)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def roof_rate(point: RooflinePoint) -> float:
    """Return the operations per second at the node's roof."""
    return point.flops / point.needed_us * 1e6


def roofline_svg(points: Sequence[RooflinePoint], ceilings: Ceilings) -> Markup | None:
    """Draw the roofline; return None where no node computes anything."""
    plotted = [point for point in points if point.flops and point.bytes and point.taken_us and point.needed_us]
    if not plotted:
        return None
    axes = _Axes(plotted, ceilings)
    said = ". ".join(
        f"{point.node}: {point.intensity:.3g} operations a byte, {share_text(point.reached)} of its roof"
        for point in plotted[:40]
    )
    return element(
        "svg",
        element("title", "Roofline: operations a second over operations a byte"),
        *_grid(axes),
        *_roofs(axes, plotted, ceilings),
        *_points(axes, plotted),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="plot",
        role="img",
        aria_label=f"Roofline. {said}",
    )


def rate_text(rate: float) -> str:
    """Return a number of operations per second as text."""
    for size, unit in _UNITS:
        if rate >= size:
            return f"{rate / size:.3g} {unit}flop/s"
    return f"{rate:.3g} flop/s"


def _arithmetics(points: Iterable[RooflinePoint]) -> list[str]:
    return list(dict.fromkeys(part for point in points for part in point.arithmetic.split(" + ") if part))


def _grid(axes: _Axes) -> list[Markup]:
    parts = []
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in _powers(axes.low_x, axes.high_x):
        x = f"{axes.x(10.0**power):.1f}"
        parts.append(element("path", d=f"M{x} {_TOP}V{bottom}", class_="grid"))
        text = f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}"
        parts.append(element("text", text, x=x, y=bottom + 19, text_anchor="middle", class_="axis"))
    for power in _powers(axes.low_y, axes.high_y):
        y = axes.y(10.0**power)
        parts.append(element("path", d=f"M{_LEFT} {y:.1f}H{right}", class_="grid"))
        text = rate_text(10.0**power).replace("flop/s", "").strip()
        parts.append(element("text", text, x=_LEFT - 9, y=f"{y + 4:.1f}", text_anchor="end", class_="axis"))
    parts.append(
        element("text", "operations a byte", x=(_LEFT + right) // 2, y=_HEIGHT - 8, text_anchor="middle", class_="axis")
    )
    parts.append(
        element("text", "operations a second", transform=f"translate(20 {(_TOP + bottom) // 2}) rotate(-90)",
                text_anchor="middle", class_="axis")
    )  # fmt: skip
    return parts


def _roofs(axes: _Axes, points: Sequence[RooflinePoint], ceilings: Ceilings) -> list[Markup]:
    parts = []
    slope = ceilings.read_bytes_per_s
    start = max(axes.low_x, axes.low_y / slope)
    for arithmetic in _arithmetics(points):
        rate = ceilings.rate(arithmetic)
        bend = rate / slope
        path = (
            f"M{axes.x(start):.1f} {axes.y(start * slope):.1f}L{axes.x(bend):.1f} {axes.y(rate):.1f}"
            f"H{axes.x(axes.high_x):.1f}"
        )
        parts.append(element("path", d=path, class_="roof"))
        name = f"{arithmetic}: {rate_text(rate)}"
        parts.append(
            element("text", name, x=_WIDTH - _RIGHT - 6, y=f"{axes.y(rate) - 7:.1f}", text_anchor="end",
                    class_="roof-name halo-text")
        )  # fmt: skip
    at = (start * min(ceilings.rate(a) for a in _arithmetics(points)) / slope) ** 0.5
    x, y = axes.x(at), axes.y(at * slope)
    turn = -math.degrees(math.atan2(y - axes.y(at * slope * 10), axes.x(at * 10) - x))
    parts.append(
        element("text", f"read bandwidth: {slope / 1e12:.3g} TB/s", class_="roof-name halo-text", text_anchor="middle",
                transform=f"translate({x:.1f} {y:.1f}) rotate({turn:.1f}) translate(0 -8)")
    )  # fmt: skip
    return parts


def _points(axes: _Axes, points: Sequence[RooflinePoint]) -> list[Markup]:
    parts, labels = [], []
    places = [(axes.x(point.intensity), axes.y(point.flops / point.taken_us * 1e6)) for point in points]
    taken = [(x - 6, x + 6, y) for x, y in places]
    for point, (x, y) in sorted(zip(points, places, strict=True), key=lambda pair: -pair[0].taken_us):
        roof = axes.y(roof_rate(point))
        title = (
            f"{point.node}: took {time_text(point.taken_us)}, needs {time_text(point.needed_us)}, "
            f"{ratio_text(point.taken_us / point.needed_us)} the floor"
        )
        if y - roof > 9:
            parts.append(element("path", d=f"M{x:.1f} {y:.1f}V{roof:.1f}", class_="reach"))
        near = " near" if point.reached >= _NEAR else ""
        circle = element("circle", element("title", title), cx=f"{x:.1f}", cy=f"{y:.1f}", r=6, class_=f"point{near}")
        parts.append(circle)
        labels += _label(short(point.node, 26), x, y, taken)
    return [*parts, *labels]


def _label(text: str, x: float, y: float, taken: list[tuple[float, float, float]]) -> list[Markup]:
    """Draw the name beside its point where it hides no point and no other name; draw none where no room is left."""
    width = 7.4 * len(text)
    for anchor, low in (("start", x + 11), ("end", x - 11 - width)):
        high = low + width
        free = all(high < left or low > right or abs(y - other) > 15 for left, right, other in taken)
        if free and low > _LEFT and high < _WIDTH:
            taken.append((low, high, y))
            at = low if anchor == "start" else high
            place = {"x": f"{at:.1f}", "y": f"{y + 4.5:.1f}", "text_anchor": anchor}
            return [element("text", text, class_="label halo-text", **place)]
    return []


def _powers(low: float, high: float) -> range:
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
