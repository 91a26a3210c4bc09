"""Give places to the nodes of a directed graph: by Graphviz where it is installed, else in plain rows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

_NODE_GAP, _LEVEL_GAP = 26.0, 46.0
_INCH = 72.0  # Graphviz counts in inches
_DOT_LIMIT_S = 30
_DOT_LARGEST_INCHES = 10_000  # dot rounds to 5 digits: beyond this, boxes could overlap

XY = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """Hold the place of a node: its centre, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Hold all places; each edge is a chain of cubic Bezier curves: its start, then three points for each curve."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[XY, ...], ...]
    width: float
    height: float


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes of the given sizes; an edge (a, b) goes down where a < b; rows stand in for a dot that fails."""
    dot = shutil.which("dot")
    return (dot and _by_dot(dot, sizes, edges)) or _rows(sizes, edges)


def _by_dot(dot: str, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout | None:
    """Ask dot for the places. It is given numbers only, so that no name of a model can be read as its language."""
    graph = [
        f"digraph {{ nodesep={_NODE_GAP / _INCH}; ranksep={_LEVEL_GAP / _INCH};",
        'node [shape=box, fixedsize=true, label=""]; edge [tailport=s, headport=n, dir=none];',
        *(f"{at} [width={w / _INCH}, height={h / _INCH}];" for at, (w, h) in enumerate(sizes)),
        *(f"{a} -> {b};" for a, b in edges),
        "}",
    ]
    centres: dict[str, XY] = {}
    curves: dict[tuple[str, str], list[tuple[XY, ...]]] = {}
    width = height = 0.0
    try:
        done = subprocess.run(
            [dot, "-Tplain"], input="\n".join(graph), capture_output=True, text=True, timeout=_DOT_LIMIT_S, check=True
        )
        for kind, *words in (line.split() for line in done.stdout.splitlines()):
            if kind == "graph":
                width, height = (float(word) * _INCH for word in words[1:3])
            elif kind == "node":
                centres[words[0]] = _points(words[1:3], height)[0]
            elif kind == "edge":
                points = _points(words[3 : 3 + 2 * int(words[2])], height)
                curves.setdefault((words[0], words[1]), []).append(points)
        boxes = tuple(Box(*centres[str(at)], *size) for at, size in enumerate(sizes))
        lines = tuple(curves[str(a), str(b)].pop(0) for a, b in edges)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError):
        return None
    return Layout(boxes, lines, width, height) if max(width, height) < _DOT_LARGEST_INCHES * _INCH else None


def _points(words: Sequence[str], height: float) -> tuple[XY, ...]:
    """Read points of dot, whose y goes up."""
    values = [float(word) * _INCH for word in words]
    return tuple((x, height - y) for x, y in zip(values[::2], values[1::2], strict=True))


def _rows(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place one row for each level, the longest path from the top; an edge that passes rows goes to their right."""
    levels = [0] * len(sizes)
    for a, b in sorted(edges):
        levels[b] = max(levels[b], levels[a] + 1) if a < b else levels[b]
    rows: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for at, level in enumerate(levels):
        rows[level].append(at)
    spans = [sum(sizes[at][0] + _NODE_GAP for at in row) - _NODE_GAP for row in rows]
    bottoms = list(accumulate((max(sizes[at][1] for at in row) for row in rows), lambda y, high: y + _LEVEL_GAP + high))
    tops = [0.0, *(bottom + _LEVEL_GAP for bottom in bottoms)]
    width = right = max(spans, default=0.0)
    boxes = {}
    for row, span, top, bottom in zip(rows, spans, tops, bottoms, strict=False):
        left = (width - span) / 2
        for at in row:
            boxes[at] = Box(left + sizes[at][0] / 2, (top + bottom) / 2, *sizes[at])
            left += sizes[at][0] + _NODE_GAP
    lines = []
    for a, b in edges:
        points = [(boxes[a].x, boxes[a].y + sizes[a][1] / 2), (boxes[b].x, boxes[b].y - sizes[b][1] / 2)]
        if passed := range(levels[a] + 1, levels[b]):
            beside = (width + max(spans[level] for level in passed) + _NODE_GAP) / 2
            points[1:1] = [(beside, tops[passed[0]]), (beside, bottoms[passed[-1]])]
            right = max(right, beside)
        lines.append(_curve(points))
    return Layout(tuple(boxes[at] for at in range(len(sizes))), tuple(lines), right, bottoms[-1] if bottoms else 0.0)


def _curve(points: Sequence[XY]) -> tuple[XY, ...]:
    """Join points by curves that leave and arrive downwards."""
    pairs = [((x, (y + b) / 2), (a, (y + b) / 2), (a, b)) for (x, y), (a, b) in pairwise(points)]
    return (points[0], *(point for pair in pairs for point in pair))
