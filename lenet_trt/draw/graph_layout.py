"""Places for the nodes of a directed graph: layers from top to bottom, few crossings, straight long edges.

The steps are those of layered drawing (Sugiyama, Tagawa and Toda 1981): rank by longest path, give each edge a
point on every layer that it passes, order layers by the medians of their neighbours, then set places one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 12
_NODE_GAP, _EDGE_GAP, _LAYER_GAP = 26.0, 14.0, 46.0


@dataclass(frozen=True)
class Box:
    """Where a node is: its centre, and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """All places; ``edges`` has for each edge the points that it passes, from the one node to the other."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes of the given sizes; an edge (a, b) goes down from a to b.

    Edges that would close a cycle are placed as if they went the other way.

    Raises:
        ValueError: an edge names a node that is not there.
    """
    if any(not (0 <= end < len(sizes)) for edge in edges for end in edge):
        raise ValueError(f"an edge names a node beyond the {len(sizes)} that there are")
    forward = _without_cycles(len(sizes), edges)
    ranks = _ranks(len(sizes), forward)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []
    for a, b in forward:
        chain = [a]
        for rank in range(ranks[a] + 1, ranks[b]):
            chain.append(len(widths))
            widths.append(0.0)
            ranks.append(rank)
        chains.append([*chain, b])
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for a, b in pairwise(chain):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    layers = _ordered(_layers(ranks), above, below)
    xs = _places(layers, widths, above, below)
    left = min((x - width / 2 for x, width in zip(xs, widths, strict=True)), default=0.0)
    xs = [x - left for x in xs]
    tops, heights, height = _rows(layers, sizes)
    middle = [tops[rank] + heights[rank] / 2 for rank in ranks]
    boxes = tuple(Box(xs[node], middle[node], *sizes[node]) for node in range(len(sizes)))
    lines = []
    for edge, chain in zip(edges, chains, strict=True):
        passed = [(tops[rank], tops[rank] + heights[rank]) for rank in (ranks[node] for node in chain[1:-1])]
        points = _points(chain, xs, passed, boxes)
        lines.append(tuple(points if edge[0] == chain[0] else reversed(points)))
    width = max((x + width / 2 for x, width in zip(xs, widths, strict=True)), default=0.0)
    return Layout(boxes, tuple(lines), width, height)


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, those turned round that lead back to where a walk from the top is."""
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    back: set[tuple[int, int]] = set()
    state = [0] * count  # 1: on the walk, 2: done
    for root in range(count):
        walk = [(root, iter(after.get(root, ())))] if not state[root] else []
        state[root] = state[root] or 1
        while walk:
            node, following = walk[-1]
            for other in following:
                if state[other] == 1:
                    back.add((node, other))
                elif not state[other]:
                    state[other] = 1
                    walk.append((other, iter(after.get(other, ()))))
                    break
            else:
                state[node] = 2
                walk.pop()
    return [(b, a) if (a, b) in back else (a, b) for a, b in edges]


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """How many nodes the longest way from the top to each passes; what nothing leads to stands above its first use."""
    after: dict[int, list[int]] = {}
    waits = [0] * count
    for a, b in edges:
        if a != b:
            after.setdefault(a, []).append(b)
            waits[b] += 1
    ranks = [0] * count
    roots = [node for node in range(count) if not waits[node]]
    ready = list(roots)
    while ready:
        node = ready.pop()
        for other in after.get(node, ()):
            ranks[other] = max(ranks[other], ranks[node] + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    for root in roots:
        if after.get(root):
            ranks[root] = min(ranks[other] for other in after[root]) - 1
    return ranks


def _layers(ranks: Sequence[int]) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for node, rank in enumerate(ranks):
        layers[rank].append(node)
    return layers


def _ordered(
    layers: list[list[int]], above: Mapping[int, list[int]], below: Mapping[int, list[int]]
) -> list[list[int]]:
    """Layers in the order with the fewest crossings that the sweeps came upon."""
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = above if down else below
        layers = [list(layer) for layer in layers]
        for index in range(len(layers)) if down else reversed(range(len(layers))):
            beside = index - 1 if down else index + 1
            if 0 <= beside < len(layers):
                place = {node: at for at, node in enumerate(layers[beside])}
                own = {node: at for at, node in enumerate(layers[index])}
                layers[index].sort(key=lambda node: (_median(node, near, place, own), own[node]))
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _median(node: int, near: Mapping[int, list[int]], place: Mapping[int, int], own: Mapping[int, int]) -> float:
    places = sorted(place[other] for other in near.get(node, ()) if other in place)
    if not places:
        return float(own[node])
    middle = len(places) // 2
    return places[middle] if len(places) % 2 else (places[middle - 1] + places[middle]) / 2


def _crossings(layers: Sequence[Sequence[int]], below: Mapping[int, list[int]]) -> int:
    total = 0
    for layer, lower in pairwise(layers):
        place = {node: at for at, node in enumerate(lower)}
        ends = [end for node in layer for end in sorted(place[other] for other in below.get(node, ()))]
        total += _inversions(ends, len(lower))
    return total


def _inversions(values: Sequence[int], size: int) -> int:
    """How many pairs stand in the wrong order, counted with a tree of sums."""
    tree = [0] * (size + 1)
    total = 0
    for seen, value in enumerate(values):
        at, before = value + 1, 0
        while at:
            before += tree[at]
            at -= at & -at
        total += seen - before
        at = value + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return total


def _places(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Mapping[int, list[int]],
    below: Mapping[int, list[int]],
) -> list[float]:
    """Each node near the middle of its neighbours, as far as those beside it leave room."""
    xs = [0.0] * len(widths)
    for layer in layers:
        at = 0.0
        for node in layer:
            at += widths[node] / 2
            xs[node] = at
            at += widths[node] / 2 + (_NODE_GAP if widths[node] else _EDGE_GAP)
    for sweep in range(2 * _SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _settle(layer, widths, [_wanted(node, near, xs) for node in layer], xs)
    return xs


def _wanted(node: int, near: Mapping[int, list[int]], xs: Sequence[float]) -> float:
    places = sorted(xs[other] for other in near.get(node, ()))
    if not places:
        return xs[node]
    middle = len(places) // 2
    return places[middle] if len(places) % 2 else (places[middle - 1] + places[middle]) / 2


def _settle(layer: Sequence[int], widths: Sequence[float], wanted: Sequence[float], xs: list[float]) -> None:
    """The places nearest to those wanted (least squares) that keep order and gaps: those that press join."""
    offsets = [0.0]
    for a, b in pairwise(layer):
        gap = _NODE_GAP if widths[a] and widths[b] else _EDGE_GAP
        offsets.append(offsets[-1] + widths[a] / 2 + gap + widths[b] / 2)
    groups: list[tuple[float, int]] = []  # mean place of a group's members before their offsets, how many
    for want, offset in zip(wanted, offsets, strict=True):
        groups.append((want - offset, 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (left, many), (right, more) = groups.pop(-2), groups.pop()
            groups.append(((left * many + right * more) / (many + more), many + more))
    places = [place for place, many in groups for _ in range(many)]
    for node, place, offset in zip(layer, places, offsets, strict=True):
        xs[node] = place + offset


def _rows(
    layers: Sequence[Sequence[int]], sizes: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float], float]:
    heights = [max((sizes[node][1] for node in layer if node < len(sizes)), default=0.0) for layer in layers]
    tops, at = [], 0.0
    for height in heights:
        tops.append(at)
        at += height + _LAYER_GAP
    return tops, heights, max(0.0, at - _LAYER_GAP)


def _points(
    chain: Sequence[int], xs: Sequence[float], passed: Sequence[tuple[float, float]], boxes: Sequence[Box]
) -> list[tuple[float, float]]:
    """From the foot of the one box to the head of the other, straight down through the layers between."""
    first, last = boxes[chain[0]], boxes[chain[-1]]
    between = [(xs[node], y) for node, span in zip(chain[1:-1], passed, strict=True) for y in span]
    return [(first.x, first.y + first.height / 2), *between, (last.x, last.y - last.height / 2)]
