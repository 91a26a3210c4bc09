"""Define the rules that write the merging of patches in one way, as between the stages of a Swin.

Four pixels of [n, h, w, c] become one: a pixel, the one below it, and the two to the right of these, side by side along
the last axis. In normal form that is ``MergePatches(x)``, with the shape in which the file has the result; its last
size is 4 c. Height and width are even.

Source: what torch's exporters write for torchvision and transformers, ``Slice`` with steps of 2 and ``Concat``, and for
timm, ``Reshape``, ``Transpose`` and ``Reshape``.
"""

from __future__ import annotations

from lenet_trt.fuse.size_readers import only_for_sizes, reader_beside_sizes
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_RANK = 4
_SIDE = 2
# (row, column) of a pixel in its square, in the order in which they are joined.
_ORDER = [(0, 0), (1, 0), (0, 1), (1, 1)]
_OF_IMAGE = (1, 2)  # axes of height and width
_TO_SQUARES = [0, 1, 3, 4, 2, 5]  # [n, h, row, w, column, c] to [n, h, w, column, row, c]


def patches_of_slices(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace slices of every other row and column, and the ``Concat`` that joins four of them."""
    if not node.is_op("Concat") or len(node.inputs) != len(_ORDER):
        return
    if node.attributes.get("axis") not in (-1, _RANK - 1) or graph.rank(node.outputs[0]) != _RANK:
        return
    old = [node]
    sources = []
    for name in node.inputs:
        part = _part_of(graph, name)
        if part is None:
            return
        source, start, slices = part
        sources.append((source, start))
        old += [each for each in slices if each not in old]
    x = sources[0][0]
    shape = graph.shape(x)
    channels = None if shape is None else shape[-1]
    if sources == [(x, start) for start in _ORDER] and isinstance(channels, int):
        _put(graph, old, x, channels)


def patches_of_squares(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape``, ``Transpose`` and ``Reshape`` that do the same."""
    if not node.is_op("Transpose") or node.attributes.get("perm") != _TO_SQUARES:
        return
    divide, join = graph.producer(node.inputs[0]), reader_beside_sizes(graph, node.outputs[0], "Reshape")
    if divide is None or not divide.is_op("Reshape") or join is None:
        return
    x = divide.inputs[0]
    image, divided = (graph.shape(name) for name in (x, node.inputs[0]))
    if image is None or divided is None or len(image) != _RANK:
        return
    height, width, channels = image[1:]
    if not (isinstance(height, int) and isinstance(width, int) and isinstance(channels, int)):
        return
    squares = (height // _SIDE, _SIDE, width // _SIDE, _SIDE, channels)
    even = height % _SIDE == 0 and width % _SIDE == 0
    if even and divided[1:] == squares and _are_rows(graph, join.outputs[0], channels):
        _put(graph, [join, node, divide], x, channels)


def _put(graph: WorkingGraph, old: list[WorkingNode], x: str, channels: int) -> None:
    """Replace nodes, the first of which gives the merged patches, and what only folds or unfolds axes of their rows."""
    last = old[0]
    fold = reader_beside_sizes(graph, last.outputs[0], "Reshape")
    if fold is not None and _are_rows(graph, fold.outputs[0], channels):
        old, last = [*old, fold], fold
    if not only_for_sizes(graph, [name for each in old if each is not last for name in each.outputs], old):
        return
    origins = frozenset().union(*(each.origins for each in old))
    graph.replace(old, [(last.slot, WorkingNode("MergePatches", [x], list(last.outputs), {}, origins))])


def _are_rows(graph: WorkingGraph, name: str, channels: int) -> bool:
    return (graph.shape(name) or ())[-1:] == (len(_ORDER) * channels,)


def _part_of(graph: WorkingGraph, name: str) -> tuple[str, tuple[int, int], list[WorkingNode]] | None:
    """Return x, where the first pixel is, and the slices, if a value is every other row and column of x."""
    starts: dict[int, int] = {}
    slices: list[WorkingNode] = []
    while (node := graph.producer(name)) is not None and node.is_op("Slice") and len(starts) < len(_OF_IMAGE):
        found = _starts_of(graph, node)
        if found is None or found.keys() & starts.keys():
            return None
        starts |= found
        slices.append(node)
        name = node.inputs[0]
    if starts.keys() != set(_OF_IMAGE):
        return None
    return name, (starts[1], starts[2]), slices


def _starts_of(graph: WorkingGraph, node: WorkingNode) -> dict[int, int] | None:
    """Return where a ``Slice`` begins on each axis of which it takes every other element, to the end.

    None where it takes something else, or where an axis has an odd size or one that is not known.
    """
    shape = graph.shape(node.inputs[0])
    values = [graph.constants.get(each) for each in node.inputs[1:]]
    if shape is None or len(shape) != _RANK or len(values) != len(("starts", "ends", "axes", "steps")):
        return None
    if any(value is None for value in values):
        return None
    result = {}
    for start, end, axis, step in zip(*(v.reshape(-1).tolist() for v in values if v is not None), strict=True):
        size = shape[axis]
        if axis % _RANK not in _OF_IMAGE or not isinstance(size, int) or size % _SIDE or step != _SIDE:
            return None
        taken = range(size)[start:end:step]
        if len(taken) * _SIDE != size or not taken:
            return None
        result[axis % _RANK] = taken[0]
    return result
