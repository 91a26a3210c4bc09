"""Draw measurements as lines, points and bars: as SVG that follows the page's light or dark look, or as PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from lenet_trt.draw import panels
from lenet_trt.draw.chart import Chart
from lenet_trt.errors import LenetTrtError, UsageError

FORMATS = ("svg", "png")
# This mark says which program made a picture: the creator in an SVG's metadata, the software in a PNG's.
MARK = "lenet-trt charts"


def render(charts: Sequence[Chart], form: str) -> bytes:
    """Draw the charts, one below the other, as "svg" or "png"; the same charts give the same bytes.

    An SVG is drawn in the light look, and turns dark where the reader prefers that.

    Raises:
        UsageError: the form is neither "svg" nor "png".
        LenetTrtError: there is nothing to draw, or matplotlib is not installed.
    """
    if form not in FORMATS:
        raise UsageError(f"a picture as {form!r}: wanted {' or '.join(FORMATS)}")
    if not any(series.y for chart in charts for series in chart.series):
        raise LenetTrtError("there is nothing to draw: no chart has a point")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LenetTrtError(f"pictures need matplotlib ({error}): pip install matplotlib") from error
    settings: Any = _settings()
    looks = panels.looks([series for chart in charts for series in chart.series])
    with matplotlib.rc_context(settings):
        heights = [panels.height(chart) for chart in charts]
        labels = panels.labels(charts)
        width = panels.width(charts)
        columns = panels.legend_columns(labels, width)
        legend = panels.LEGEND_LINE_INCHES * -(-len(labels) // columns) if labels else 0
        figure: Any = Figure(figsize=(width, sum(heights) + legend), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1, wspace=0.03)
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        places: list[panels.PlotAxes] = []
        for index, chart in enumerate(charts):
            same = index > 0 and panels.lines_of(chart) and panels.lines_of(chart) == panels.lines_of(charts[0])
            places.append(figure.add_subplot(grid[index], sharey=places[0] if same else None))
        for axes, chart in zip(places, charts, strict=True):
            panels.draw(axes, chart, looks, panels.title_inches(charts))
        panels.legend(figure, places, labels, columns)
        target = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None, "Creator": MARK} if form == "svg" else {"Software": MARK}
        figure.savefig(target, format=form, metadata=metadata, dpi=160)
    return _themed(target.getvalue().decode(), charts).encode() if form == "svg" else target.getvalue()


def _settings() -> dict[str, Any]:
    ink, grid, frame, back = panels.INK[0], panels.GRID[0], panels.FRAME[0], panels.BACK[0]
    return {
        "svg.fonttype": "none",  # text stays text: it can be found, and is set in the reader's font
        "svg.hashsalt": "lenet-trt",
        "font.family": "sans-serif",
        "font.size": 11,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": frame,
        "axes.facecolor": back,
        "figure.facecolor": back,
        "axes.titlesize": 13,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": False,
        "grid.color": grid,
        "grid.linewidth": 0.8,
        "xtick.color": frame,
        "ytick.color": frame,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "legend.fontsize": 10,
    }


def _themed(svg: str, charts: Sequence[Chart]) -> str:
    """Add a description, the reader's font, and rules that change the colours in the dark look.

    The picture itself keeps the colours of the light look, so that a program without style sheets draws it too.
    """
    pairs = [*panels.EMPHASIS, *panels.COLOURS, panels.FLOOR, panels.BACK, panels.INK, panels.GRID, panels.FRAME]
    dark = "\n".join(
        f'[style*="{name}: {light}"] {{ {name}: {dark} !important }}'
        for light, dark in pairs
        for name in ("fill", "stroke")
        if f"{name}: {light}" in svg
    )
    style = (
        "text { font-family: ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif !important }\n"
        f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    )
    label = _escaped("; ".join(f"{chart.title}: {chart.y_label} against {chart.x_label}" for chart in charts))
    head, tag, rest = svg.partition("<svg ")
    attributes, end, body = rest.partition(">")
    title = f"\n <title>{label}</title>\n <style>{style}</style>"
    body = re.sub(r' (d|x|y|transform)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), body)
    return f'{head}{tag}role="img" aria-label="{label}" {attributes}{end}{title}{body}'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
