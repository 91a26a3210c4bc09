"""Draw one panel of a picture: colours, lines, bars, axes and legend."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lenet_trt.draw.chart import Chart, Series

# matplotlib's types change from one release to the next.
PlotAxes: TypeAlias = Any

# Each colour in the light and in the dark look. Emphasised series take the first list; the other colours follow in an
# order in which neighbours differ also for people who cannot tell red from green (and by their marks).
EMPHASIS = (("#4b8500", "#95d826"), ("#b8860b", "#ffd166"))
COLOURS = (
    ("#1f6fd1", "#6cb6ff"),
    ("#c2410c", "#ff9e64"),
    ("#7c3aed", "#c4a7ff"),
    ("#0f8a8a", "#5fd7d7"),
    ("#be185d", "#ff8fc7"),
    ("#57606a", "#b1bac4"),
    ("#8a6d00", "#e3c34d"),
    ("#2e5f8a", "#8fbfe8"),
)
FLOOR = ("#6e7781", "#9aa4b0")
# There is one mark fewer than colours, so that pairs of both repeat late.
MARKS = ("o", "s", "^", "D", "v", "P", "X")
BACK, INK = ("#ffffff", "#0d1117"), ("#24292f", "#e6edf3")
GRID, FRAME = ("#e1e4e8", "#262c36"), ("#8c959f", "#7d8590")
# Panels stand below each other: side by side they would be too small on a page.
PANEL_INCHES = (8.4, 4.4)
# This width keeps letters readable on a phone, and this height makes room for the names.
NAMED_INCHES = (6.4, 5.0)
_BAR_INCHES = 0.34
_AROUND_BARS_INCHES = 1.5
# The largest width of a letter in any reader's font, the width of the mark beside a label, and the height of a line.
_LETTER_INCHES, _HANDLE_INCHES, LEGEND_LINE_INCHES = 0.083, 0.62, 0.22
_TITLE_LETTER_INCHES = 0.108
_MARGIN = 0.05
_TEXT_SHARE = 0.22
# The distance between names at the lines' ends, as a share of the axes' height; the place where names begin.
_NAME_STEP, _NAMES_AT = 0.052, 1.03


def draw(axes: PlotAxes, chart: Chart, looks: Mapping[str, tuple[str, str]], inches: float) -> None:
    """Draw a chart into its axes; ``looks`` has a colour and a mark per label, ``inches`` is the title's width."""
    bars = [series for series in chart.series if series.style == "bars"]
    if bars:
        _draw_bars(axes, chart, bars, looks)
    for series in chart.series:
        if series.style != "bars":
            _draw_line(axes, series, *looks[series.label])
    axes.set_title(_title(chart, inches), pad=10)
    axes.set_xlabel("\n".join([chart.x_label, *chart.notes]))
    axes.set_ylabel(chart.y_label)
    _scale(axes, chart)
    if chart.named_at_ends:
        _name_ends(axes, chart, looks)


def title_inches(charts: Sequence[Chart]) -> float:
    """Return the width for a title: it begins at the axes, to the right of the widest names of bars."""
    names = [str(name) for chart in charts if chart.horizontal for series in chart.series for name in series.x]
    return width(charts) - _LETTER_INCHES * max(map(len, names), default=8)


def _title(chart: Chart, inches: float) -> str:
    """Break the title into lines, none of them at an equals sign."""
    kept = chart.title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    return textwrap.fill(kept, max(int(inches / _TITLE_LETTER_INCHES), 24), break_on_hyphens=False)


def lines_of(chart: Chart) -> tuple[str, bool] | None:
    """Return what panels must share to be compared by eye: label and kind of the y axis; None for bars."""
    return None if any(series.style == "bars" for series in chart.series) else (chart.y_label, chart.y_log)


def height(chart: Chart) -> float:
    """Return the height in inches; many bars need more."""
    bars = [series for series in chart.series if series.style == "bars"]
    if not bars or not chart.horizontal:
        return _inches(chart)[1]
    names = {str(name) for series in bars for name in series.x}
    groups = {series.group or series.label for series in bars}
    return _AROUND_BARS_INCHES + _BAR_INCHES * len(names) * max(len(groups), 1.2)


def width(charts: Sequence[Chart]) -> float:
    """Return the width in inches of the widest chart."""
    return max(_inches(chart)[0] for chart in charts)


def _inches(chart: Chart) -> tuple[float, float]:
    return NAMED_INCHES if chart.named_at_ends else PANEL_INCHES


def labels(charts: Sequence[Chart]) -> list[str]:
    """Return the labels of the legend; where each panel has one series, its title is enough."""
    alone = len(charts) > 1
    named = [chart for chart in charts if len(chart.series) > alone and not chart.named_at_ends]
    labels = [each.label for chart in named for each in chart.series]
    return list(dict.fromkeys(filter(None, [*labels, *(chart.limit[0] for chart in charts if chart.limit)])))


def legend_columns(labels: Sequence[str], inches: float) -> int:
    """Return how many columns fit; entries fill one column after the other."""
    widths = [_HANDLE_INCHES + _LETTER_INCHES * len(label) for label in labels]
    for columns in range(len(labels), 1, -1):
        # The first columns have one more where they cannot all have as many.
        least, more = divmod(len(labels), columns)
        ends = list(itertools.accumulate([least + 1] * more + [least] * (columns - more)))
        if sum(max(widths[start:end]) for start, end in itertools.pairwise([0, *ends])) <= inches:
            return columns
    return 1


def legend(figure: Any, panels: Sequence[PlotAxes], labels: Sequence[str], columns: int) -> None:
    """Draw one legend for all panels, above them."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if labels:
        figure.legend([handles[label] for label in labels], labels, loc="outside upper left", ncols=columns)


def looks(series: Sequence[Series]) -> dict[str, tuple[str, str]]:
    """Choose a colour and a mark for each label: a label looks the same in all panels."""
    emphasised, others = itertools.cycle(EMPHASIS), itertools.cycle(COLOURS)
    marks = itertools.cycle(MARKS)
    looks: dict[str, tuple[str, str]] = {}
    for each in series:
        if each.label in looks:
            continue
        if each.style == "dashed":
            looks[each.label] = FLOOR[0], ""
        else:
            looks[each.label] = next(emphasised if each.emphasis else others)[0], next(marks)
    return looks


def _draw_line(axes: PlotAxes, series: Series, colour: str, mark: str) -> None:
    points = [(x, math.nan if y is None else y) for x, y in zip(series.x, series.y, strict=True)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    width = 3.0 if series.emphasis else 1.7
    line = {"line": "-", "dashed": "--", "points": "none"}[series.style]
    axes.plot(
        xs,
        ys,
        linestyle=line,
        linewidth=1.4 if series.style == "dashed" else width,
        marker=mark,
        markersize=6.5 if series.emphasis else 4.5,
        color=colour,
        label=series.label,
        zorder=3 if series.emphasis else 2,
    )
    if series.low is not None and series.high is not None:
        axes.fill_between(xs, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    for x, y, text in zip(xs, ys, series.texts, strict=False):
        last = series.style != "points" and x == xs[-1]
        axes.annotate(
            text,
            (x, y),
            (-2, 4) if last else (7, -11),
            textcoords="offset points",
            ha="right" if last else "left",
            color=INK[0],
            fontsize=9,
        )


def _name_ends(axes: PlotAxes, chart: Chart, looks: Mapping[str, tuple[str, str]]) -> None:
    """Write each line's name at the right, as near to its end as there is room, with a thread to the end."""
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = {}
    for series in chart.series:
        points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
        if points:
            ends[series.label] = (series, *points[-1], float(to_axes.transform(points[-1])[1]))
    order = sorted(ends.values(), key=lambda end: end[3])
    apart = spread_apart([end[3] for end in order], _NAME_STEP, 1.0)  # higher ones would cover the title
    for (series, x, y, _), place in zip(order, apart, strict=True):
        colour = looks[series.label][0]
        axes.annotate(
            series.label,
            (x, y),
            (_NAMES_AT, place),
            textcoords="axes fraction",
            va="center",
            color=colour,
            weight="bold" if series.emphasis else "normal",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 4,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def spread_apart(places: Sequence[float], step: float, most: float = math.inf) -> list[float]:
    """Move ascending places as little as makes them ``step`` apart: crowded places stay around their middle.

    None is moved above ``most``.
    """
    groups: list[tuple[float, int]] = []  # the lowest place of each, and how many it has
    for place in places:
        low, count = place, 1
        while groups and groups[-1][0] + groups[-1][1] * step > low:
            before, many = groups.pop()
            middle = (many * (before + (many - 1) * step / 2) + count * (low + (count - 1) * step / 2)) / (many + count)
            count += many
            low = middle - (count - 1) * step / 2
        groups.append((low, count))
    apart = [low + index * step for low, count in groups for index in range(count)]
    return [min(place, most - above * step) for above, place in zip(reversed(range(len(apart))), apart, strict=True)]


def _draw_bars(axes: PlotAxes, chart: Chart, bars: Sequence[Series], looks: Mapping[str, tuple[str, str]]) -> None:
    names = list(dict.fromkeys(str(name) for series in bars for name in series.x))
    groups = list(dict.fromkeys(series.group or series.label for series in bars))
    share = 0.8 / len(groups)
    filled = {group: [0.0] * len(names) for group in groups}
    for series in bars:
        group = series.group or series.label
        values = {str(x): y for x, y in zip(series.x, series.y, strict=True)}
        texts = dict(zip(map(str, series.x), series.texts, strict=False))
        lengths = [values.get(name) or 0.0 for name in names]
        places = [i + (groups.index(group) - (len(groups) - 1) / 2) * share for i in range(len(names))]
        draw = axes.barh if chart.horizontal else axes.bar
        start = {"left" if chart.horizontal else "bottom": list(filled[group])}
        size = {"height" if chart.horizontal else "width": share * 0.92}
        # The edge in the paper's colour separates stacked bars.
        edge = {"edgecolor": BACK[0], "linewidth": 0.8}
        made = draw(places, lengths, label=series.label, color=looks[series.label][0], **start, **size, **edge)
        if texts:
            said = [texts.get(name, "") if values.get(name) else "" for name in names]
            axes.bar_label(made, said, padding=4, color=INK[0], fontsize=10)
        filled[group] = [a + b for a, b in zip(filled[group], lengths, strict=True)]
    if chart.limit is not None:
        across = axes.axvline if chart.horizontal else axes.axhline
        across(chart.limit[1], color=FLOOR[0], linestyle="--", linewidth=1.4, label=chart.limit[0])
    if chart.horizontal:
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.grid(False, axis="x")
        axes.tick_params(axis="x", length=0)


def _scale(axes: PlotAxes, chart: Chart) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for log, axis, which in ((chart.x_log, axes.xaxis, "x"), (chart.y_log, axes.yaxis, "y")):
        if not log:
            continue
        # Batches are powers of two; other axes use powers of ten.
        base = chart.x_base if which == "x" and not chart.horizontal else 10
        (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=base)
        few = which == "x" and (base != 2 or chart.named_at_ends)
        axis.set_major_locator(LogLocator(base=base, numticks=5 if few else 9))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axis.set_minor_formatter(NullFormatter())
    bars = [series for series in chart.series if series.style == "bars"]
    if not bars:
        axes.margins(_MARGIN)
        return
    log = chart.x_log if chart.horizontal else chart.y_log
    (axes.set_xlim if chart.horizontal else axes.set_ylim)(*_bar_limits(chart, bars, log))


def _bar_limits(chart: Chart, bars: Sequence[Series], log: bool) -> tuple[float, float]:
    """Return the limits of the axis for bars: with room for the texts at their ends."""
    sums: dict[tuple[str, str], float] = {}
    for series in bars:
        for name, value in zip(series.x, series.y, strict=True):
            key = (series.group or series.label, str(name))
            sums[key] = sums.get(key, 0.0) + (value or 0.0)
    lengths = [*filter(None, sums.values()), *([chart.limit[1]] if chart.limit else [])]
    room = _TEXT_SHARE if any(series.texts for series in bars) else _MARGIN
    if not log:
        return 0.0, max(lengths) * (1 + room)
    low = 10 ** math.floor(math.log10(0.6 * min(lengths)))
    return low, max(lengths) * (max(lengths) / low) ** room


def _plain(value: float) -> str:
    """Format a number on an axis: 0.01, 1, 16, 1,024, 10 k, 10 M."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    if value >= 1e4 and value % 1e3 == 0:
        return f"{value / 1e3:g} k"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
