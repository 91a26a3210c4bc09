"""Write the report as one HTML file that needs nothing else: no network, no server, no JavaScript for its numbers."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files

from lenet_trt import __version__
from lenet_trt.draw.elements import Markup, element, joined_markup, node_code
from lenet_trt.draw.text import embedded_json, us_text, visible
from lenet_trt.report import sections
from lenet_trt.report.comparison import comparison_section
from lenet_trt.report.content import Content
from lenet_trt.report.events import drawn_events, typical_iteration
from lenet_trt.report.figures import swatch
from lenet_trt.report.grids import Cell, GridColumn, grid
from lenet_trt.report.optimized import optimized_section
from lenet_trt.trace.kernel_names import short_name
from lenet_trt.trace.timeline import Timeline

# This text in a page says that lenet-trt report made it.
GENERATOR = 'name="generator" content="lenet-trt '
# A longer table does not replace a picture.
_MOST_LISTED = 400
_LEGEND = {
    "k-kernel": "kernel or layer",
    "k-memcpy": "copy",
    "k-memset": "fill",
    "k-call": "CUDA call",
    "k-wait": "CUDA call that waits",
    "k-range": "range",
}
_BUTTONS = {
    "in": "Zoom in",
    "out": "Zoom out",
    "left": "Earlier",
    "right": "Later",
    "one": "One inference",
    "whole": "Whole trace",
}
_KEYS = {
    "\u2190 \u2192": "move the view",
    "+ \u2212": "zoom in and out",
    "1 0": "show one inference, show the whole trace",
    "N P": "next and previous bar of the row",
    "\u2191 \u2193": "row above and below",
    "Enter": "zoom to the bar that is picked",
    "Escape": "pick none",
}
_MOUSE = "Drag to move, hold Ctrl and scroll (or pinch) to zoom, double-click a bar to fill the view with it."


def page(content: Content) -> str:
    """Return the whole file."""
    style, script = _asset("report.css"), _asset("report.js")
    compared = comparison_section(content)
    tried = optimized_section(content.optimized)
    parts = [
        sections.findings_section(content),
        sections.ledger_section(content),
        compared,
        tried,
        timeline_section(content.run.timeline),
        sections.roofline_section(content),
        sections.activity_section(content),
        sections.environment_section(content),
    ]
    links = {"findings": "Findings", "ledger": "Ledger"}
    links |= {"comparison": "Before and after"} if compared else {}
    links |= {"optimize": "Optimisation"} if tried else {}
    links |= {
        "timeline": "Timeline",
        "roofline": "Roofline",
        "tables": "Kernels and calls",
        "environment": "Environment",
    }
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"lenet-trt {__version__}"),
        element("title", f"{content.model} on {content.gpu}: where the time goes"),
        element("link", rel="icon", href="data:,"),
        Markup(f"<style>{style}</style>"),
    )
    body = element(
        "body",
        element("a", "Skip to the findings", href="#main", class_="skip"),
        sections.top_section(content),
        _navigation(links),
        element("main", parts, id="main", class_="wrap", tabindex=-1),
        element(
            "footer", f"Made by lenet-trt {__version__} from a trace of {content.run.timeline.source}.", class_="wrap"
        ),
        element("div", id="announce", class_="visually-hidden", aria_live="polite", role="status"),
        Markup(f"<script>{script}</script>"),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def timeline_section(timeline: Timeline) -> Markup:
    """Make the timeline: a picture to zoom and move in, and the typical inference as a table for the blind."""
    if not (timeline.activities or timeline.api_calls or timeline.ranges):
        return sections.section("timeline", "Timeline", sections.missing("The trace has no activity."))
    data = drawn_events(timeline)
    canvas = element(
        "canvas",
        tabindex=0,
        role="application",
        aria_label="Timeline of host and GPU",
        aria_describedby="timeline-keys",
    )
    left_out = data["total"] - data["shown"]
    view = element(
        "div",
        element(
            "div",
            [element("button", text, type="button", data_act=act) for act, text in _BUTTONS.items()],
            class_="tools",
        ),
        element("div", canvas, element("div", class_="tip", hidden=True), class_="timeline", id="timeline-view"),
        element("p", _EMPTY, id="timeline-picked", class_="picked", aria_live="polite", data_empty=_EMPTY),
        element("ul", [element("li", swatch(colour), text) for colour, text in _LEGEND.items()], class_="legend"),
        element(
            "details",
            element("summary", "Mouse, touch and keys"),
            element("p", _MOUSE),
            element(
                "dl",
                [
                    part
                    for keys, does in _KEYS.items()
                    for part in (element("dt", joined_markup(_keys(keys))), element("dd", does))
                ],
                class_="keys",
                id="timeline-keys",
            ),
            class_="keys-help",
        ),
        id="timeline-part",
        hidden=True,
    )
    says = f"{data['shown']:,} bars: the calls of the host and the work of the GPU."
    if left_out:
        says += f" {left_out:,} of {data['total']:,} bars are left out here: they belong to other inferences."
    return sections.section(
        "timeline",
        "Timeline",
        view,
        # Not in a noscript element: a policy of the site that shows the page may also stop the script.
        element("p", _NO_SCRIPT, class_="missing", id="timeline-missing"),
        element("details", element("summary", "One inference as a table"), _listed(timeline)),
        Markup(
            '<script type="application/json" id="timeline-data">'
            f"{embedded_json(json.dumps(data, separators=(',', ':'), ensure_ascii=False))}</script>"
        ),
        says=says,
    )


_NO_SCRIPT = "The picture needs JavaScript; the table shows one inference without it."
_EMPTY = "Pick a bar to see its details here: click it, or press N in the picture."


def _keys(keys: str) -> list[object]:
    return [part for key in keys.split() for part in (element("kbd", key), " ")]


def _listed(timeline: Timeline) -> Markup:
    """List what the GPU did in the typical inference, in order."""
    typical = typical_iteration(timeline)
    low, high = (typical.start_us, typical.end_us) if typical else (float("-inf"), float("inf"))
    inside = sorted((one for one in timeline.activities if low <= one.start_us <= high), key=lambda one: one.start_us)
    begin = typical.start_us if typical else 0.0
    columns = [
        GridColumn("Begins (\u00b5s)", True),
        GridColumn("Takes (\u00b5s)", True),
        GridColumn("Kind"),
        GridColumn("Stream", True),
    ]
    columns += [GridColumn("Node", name=True), GridColumn("Name", head=True, name=True)]
    rows = [
        [
            Cell(f"{one.start_us - begin:,.2f}", one.start_us - begin),
            Cell(us_text(one.us), one.us),
            Cell(one.kind),
            Cell(str(one.stream), one.stream),
            Cell(node_code(one.node) if one.node else ""),
            Cell(element("span", short_name(one.name), class_="kernel-name", title=visible(one.name))),
        ]
        for one in inside[:_MOST_LISTED]
    ]
    name = f"Inference {typical.index}" if typical else "The trace"
    cut = f"; the first {_MOST_LISTED} of {len(inside):,}" if len(inside) > _MOST_LISTED else ""
    return grid(f"{name}: what the GPU did, in order{cut}", columns, rows)


def _navigation(links: dict[str, str]) -> Markup:
    items = [element("li", element("a", text, href=f"#{ident}")) for ident, text in links.items()]
    theme = element("button", "Colours: auto", type="button", id="theme", hidden=True)
    return element(
        "nav", element("div", element("ul", items), theme, class_="wrap"), class_="sections", aria_label="Sections"
    )


def _policy(style: str, script: str) -> str:
    """Return a policy that lets nothing load and only these two texts run: text from a trace cannot run."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("lenet_trt.report") / name).read_text(encoding="utf-8")
