"""Draw an ONNX graph as SVG: operators, names, shapes and, with a timeline, the time of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TypeProto, shape_inference

from lenet_trt.draw.elements import Markup, element
from lenet_trt.draw.graph_layout import Box, layout
from lenet_trt.draw.text import share_text, short, time_text
from lenet_trt.onnx_model.shapes import node_name
from lenet_trt.trace.timeline import Timeline

# This comment in a picture says which program made it.
MARK = "<!-- a graph of lenet-trt -->"
_MARGIN, _FOOT = 24, 34
_LINE, _PAD, _LETTER = 18.0, 14.0, 7.3
_LONGEST_LABEL = 44
_ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_STYLE = """
.page { fill: light-dark(#ffffff, #12161b); }
.box { fill: light-dark(#f3f5f8, #1f262e); stroke: light-dark(#b9c2cd, #47525f); }
.plugin .box { fill: light-dark(#eaf5d6, #24330f); stroke: light-dark(#5f9400, #8fce1f); stroke-width: 2; }
.io .box { fill: light-dark(#ffffff, #12161b); stroke-dasharray: 4 3; }
.op { font-weight: 650; fill: light-dark(#1c2733, #eef2f6); }
.soft { fill: light-dark(#4d5967, #aab5c1); }
.time { font-weight: 600; fill: light-dark(#a3161b, #ff9a9d); }
.edge { fill: none; stroke: light-dark(#8a94a1, #66727f); stroke-width: 1.5; }
.arrow { fill: light-dark(#8a94a1, #66727f); }
.heat { fill: #e5484d; }
.cold { fill: light-dark(#dfe4ea, #333d48); }
"""


@dataclass(frozen=True)
class NodeTime:
    """Hold a node's time in an inference, and its share of the time of all nodes."""

    us: float
    share: float


@dataclass(frozen=True)
class _Item:
    """Hold a box: its lines (class, text), its kind and its time."""

    lines: tuple[tuple[str, str], ...]
    title: str
    kind: str
    time: NodeTime | None = None

    @property
    def size(self) -> tuple[float, float]:
        width = max(len(text) for _, text in self.lines) * _LETTER + 2 * _PAD
        return max(96.0, width), len(self.lines) * _LINE + 14 + (8 if self.time else 0)


@dataclass(frozen=True)
class _Link:
    """Hold a link: one box passes a tensor to another."""

    source: int
    target: int
    tensor: str


def node_times(timeline: Timeline) -> dict[str, NodeTime]:
    """Return the mean time of each node of a timeline in one inference."""
    inferences = {one.iteration for one in timeline.activities if one.iteration is not None}
    sums: dict[str, float] = {}
    for activity in timeline.activities:
        if activity.node is not None and (activity.iteration is not None or not inferences):
            sums[activity.node] = sums.get(activity.node, 0.0) + activity.us
    whole = sum(sums.values())
    count = max(1, len(inferences))
    return {name: NodeTime(us / count, us / whole if whole else 0.0) for name, us in sums.items()}


def graph_svg(model: ModelProto, timeline: Timeline | None = None, title: str = "") -> str:
    """Draw the model's graph from its inputs down to its outputs."""
    times = node_times(timeline) if timeline else {}
    known = _matched(model, times, timeline)
    items, links = _items(model, known, times)
    placed = layout([item.size for item in items], [(link.source, link.target) for link in links])
    name = title or model.graph.name or "model"
    plugins = sum(item.kind == "plugin" for item in items)
    nodes = len(model.graph.node)
    said = f"{nodes} nodes, {plugins} of them plugins, from inputs at the top to outputs at the bottom."
    if timeline:
        found = sum(item.time is not None for item in items)
        said += f" {found} nodes have a time, from a trace of {timeline.source}."
    foot = _footer(plugins > 0, timeline, times, set(known.values()))
    width = max(placed.width, len(foot) * 6.6, 220) + 2 * _MARGIN
    height = placed.height + 2 * _MARGIN + _FOOT
    shift = (width - placed.width) / 2
    return str(
        element(
            "svg",
            Markup(MARK),
            element("title", f"{name}: graph"),
            element("desc", said),
            Markup(f"<style>:root {{ color-scheme: light dark; }}{_STYLE}</style>"),
            element("defs", _arrow()),
            element("rect", width="100%", height="100%", rx=10, class_="page"),
            element(
                "g",
                [_edge(points, link.tensor) for points, link in zip(placed.edges, links, strict=True)],
                [_box(item, box) for item, box in zip(items, placed.boxes, strict=True)],
                transform=f"translate({shift:.1f} {_MARGIN})",
            ),
            element("text", foot, x=f"{width / 2:.1f}", y=f"{height - 16:.1f}", text_anchor="middle", class_="soft"),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}",
            height=f"{height:.0f}",
            role="img",
            font_family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif",
            font_size=13,
        )
    )


def _footer(plugins: bool, timeline: Timeline | None, times: Mapping[str, NodeTime], drawn: set[str]) -> str:
    mark = "green: plugin" if plugins else ""
    if timeline is None:
        return mark
    rest = sum(time.us for name, time in times.items() if name not in drawn)
    whole = sum(time.us for time in times.values())
    text = f"{time_text(whole)} an inference in nodes, traced by {short(timeline.source, 40)}"
    text += f"; {mark}" if mark else ""
    return text + (f"; {time_text(rest)} of it in layers that are no node of this file" if rest else "")


def _matched(model: ModelProto, times: Mapping[str, NodeTime], timeline: Timeline | None) -> dict[int, str]:
    """Match names of the trace to nodes; the time of a layer with several nodes stands at its last node."""
    if timeline is None or not times:
        return {}
    from lenet_trt.floors.floor import Work
    from lenet_trt.floors.layers import members
    from lenet_trt.floors.regions import region_nodes
    from lenet_trt.floors.work import NodeWork

    names = [node_name(node) for node in model.graph.node]
    places = {name: place for place, name in enumerate(names)}
    entries = [
        NodeWork(name, "", Work(0, 0, 0), "fp32", "", inputs=tuple(node.input), outputs=tuple(node.output))
        for name, node in zip(names, model.graph.node, strict=True)
    ]
    regions = region_nodes(timeline.layers, entries)
    found = {}
    for name in times:
        held = regions.get(name) or members(name, entries)
        if held:
            found[places[held[-1].node]] = name
    return found


def _items(
    model: ModelProto, known: Mapping[int, str], times: Mapping[str, NodeTime]
) -> tuple[list[_Item], list[_Link]]:
    """Return boxes for inputs, nodes and outputs, and the links between boxes."""
    graph = model.graph
    shapes = _shapes(model)
    weights = {tensor.name for tensor in graph.initializer}
    items: list[_Item] = []
    made: dict[str, int] = {}
    for value in graph.input:
        if value.name not in weights:
            made[value.name] = len(items)
            items.append(_end_item("input", value.name, shapes.get(value.name, "")))
    links: list[_Link] = []
    first = len(items)
    for place, node in enumerate(graph.node):
        items.append(_node_item(node, place, shapes, known.get(place), times))
        made.update({name: first + place for name in node.output if name})
    for place, node in enumerate(graph.node):
        read = dict.fromkeys(name for name in (*node.input, *_captured(node)) if name in made)
        links += [_Link(made[name], first + place, name) for name in read if made[name] != first + place]
    for value in graph.output:
        items.append(_end_item("output", value.name, shapes.get(value.name, "")))
        if value.name in made:
            links.append(_Link(made[value.name], len(items) - 1, value.name))
    return items, links


def _captured(node: NodeProto) -> list[str]:
    """Return the tensors that the bodies of a loop or a branch read from outside."""
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    names: list[str] = []
    for body in bodies:
        own = {name for inner in body.node for name in inner.output} | {value.name for value in body.input}
        own |= {tensor.name for tensor in body.initializer}
        read = [name for inner in body.node for name in (*inner.input, *_captured(inner))]
        names += [name for name in (*read, *(value.name for value in body.output)) if name not in own]
    return names


def _node_item(
    node: NodeProto, place: int, shapes: Mapping[str, str], known: str | None, times: Mapping[str, NodeTime]
) -> _Item:
    plugin = node.domain not in _ONNX_DOMAINS
    name = node_name(node)
    time = times.get(known) if known is not None else None
    operator = f"{node.domain}::{node.op_type}" if plugin else node.op_type
    lines = [("op", short(operator, _LONGEST_LABEL))]
    if node.name:
        lines.append(("soft", short(node.name, _LONGEST_LABEL)))
    shape = ", ".join(shapes[output] for output in node.output if output in shapes)
    if shape:
        lines.append(("soft", short(shape, _LONGEST_LABEL)))
    title = f"{operator} {name}" + (f", plugin, output {shape}" if plugin else f", output {shape}" if shape else "")
    if time:
        layer = f" as {short(known or '', 30)}" if known != name else ""
        lines.append(("time", f"{time_text(time.us)}, {share_text(time.share)}{layer}"))
        title += f", {time_text(time.us)}, {share_text(time.share)} of the time of all nodes{layer}"
    return _Item(tuple(lines), title, "plugin" if plugin else "node", time)


def _end_item(kind: str, name: str, shape: str) -> _Item:
    lines = [("op", short(name, _LONGEST_LABEL)), ("soft", short(f"{kind} {shape}".strip(), _LONGEST_LABEL))]
    return _Item(tuple(lines), f"{kind} {name} {shape}", "io")


def _shapes(model: ModelProto) -> dict[str, str]:
    """Return each tensor's shape as text, as far as ONNX can infer it."""
    try:
        inferred = shape_inference.infer_shapes(model).graph
    except (shape_inference.InferenceError, ValueError):  # over 2 GB, or contradictory: the file's own shapes stay
        inferred = model.graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    return {value.name: _shape(value.type) for value in values if value.type.tensor_type.HasField("shape")}


def _shape(kind: TypeProto) -> str:
    axes = (axis.dim_param or str(axis.dim_value) for axis in kind.tensor_type.shape.dim)
    return f"[{', '.join(axes)}]"


def _box(item: _Item, box: Box) -> Markup:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    parts = [
        element("title", item.title),
        element("rect", x=f"{left:.1f}", y=f"{top:.1f}", width=f"{box.width:.1f}", height=f"{box.height:.1f}", rx=7,
                class_="box"),
    ]  # fmt: skip
    for row, (kind, text) in enumerate(item.lines):
        y = f"{top + 7 + _LINE * (row + 0.72):.1f}"
        parts.append(element("text", text, x=f"{box.x:.1f}", y=y, text_anchor="middle", class_=kind))
    if item.time:
        y, whole = f"{top + box.height - 11:.1f}", box.width - 2 * _PAD
        bar = {"x": f"{left + _PAD:.1f}", "y": y, "height": 5, "rx": 2.5}
        parts.append(element("rect", width=f"{whole:.1f}", class_="cold", **bar))
        parts.append(element("rect", width=f"{max(1.5, whole * item.time.share):.1f}", class_="heat", **bar))
    return element("g", parts, class_=item.kind)


def _edge(points: Sequence[tuple[float, float]], tensor: str) -> Markup:
    """Draw cubic Bezier curves: the start, then three points for each curve."""
    start, *rest = (f"{x:.1f} {y:.1f}" for x, y in points)
    path = f"M{start}C{' '.join(rest)}"
    return element("path", element("title", tensor), d=path, class_="edge", marker_end="url(#arrow)")


def _arrow() -> Markup:
    return element(
        "marker",
        element("path", d="M0 0 8 4 0 8z", class_="arrow"),
        id="arrow",
        viewBox="0 0 8 8",
        refX=7.5,
        refY=4,
        markerWidth=7,
        markerHeight=7,
        orient="auto",
    )
