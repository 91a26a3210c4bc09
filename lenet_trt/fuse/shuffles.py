"""Define the rules that write a channel shuffle of two joined tensors, and a pixel shuffle, in one way.

=========  =================================================================================================
shuffle    ``Concat(a, b, axis=1, interleaved=1)``: channels of a and b in turns; a and b are of one shape
halves     of that: ``Split(x, axis=1)`` with two outputs, where all else that reads x is sizes
pixels     ``DepthToSpace(x, blocksize=..., mode="CRD")``: neighbouring channels as squares of pixels
=========  =================================================================================================

Source: what torch's exporters write for torchvision's ShuffleNetV2, and for ``view``, ``permute`` and ``reshape``.
"""

from __future__ import annotations

from lenet_trt.fuse.size_readers import only_for_sizes, reader_beside_sizes
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_RANK = 4
_INTERLEAVED = {"axis": 1, "interleaved": 1}
_TO_PIXELS = [0, 1, 4, 2, 5, 3]  # [n, channels, block, block, h, w] to [n, channels, h, block, w, block]
_MODE_OF_DEPTH_TO_SPACE = 11  # the first opset in which it has one


def interleaved_concat(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Concat``, ``Reshape``, ``Transpose`` and ``Reshape`` that put two tensors' channels in turns."""
    if not node.is_op("Concat") or len(node.inputs) != 2 or node.attributes.get("axis") not in (1, 1 - _RANK):
        return
    shapes = [graph.shape(name) for name in node.inputs]
    if shapes[0] is None or len(shapes[0]) != _RANK or shapes[0] != shapes[1]:
        return
    image = shapes[0][1:]
    if not all(isinstance(size, int) and size > 0 for size in image):
        return
    channels, height, width = (int(size or 0) for size in image)
    divide = reader_beside_sizes(graph, node.outputs[0], "Reshape")
    turn = None if divide is None else reader_beside_sizes(graph, divide.outputs[0], "Transpose")
    join = None if turn is None else reader_beside_sizes(graph, turn.outputs[0], "Reshape")
    if divide is None or turn is None or join is None or turn.attributes.get("perm") != [0, 2, 1, 3, 4]:
        return
    # With these sizes, the first axis has to stay as it is.
    divided, joined = graph.shape(divide.outputs[0]), graph.shape(join.outputs[0])
    if divided is None or divided[1:] != (2, channels, height, width):
        return
    if joined is None or joined[1:] != (2 * channels, height, width):
        return
    old = [node, divide, turn, join]
    if not only_for_sizes(graph, [name for each in old[:-1] for name in each.outputs], old):
        return
    origins = frozenset().union(*(each.origins for each in old))
    graph.replace(old, [(join.slot, WorkingNode("Concat", node.inputs, join.outputs, _INTERLEAVED, origins))])


def halves_of_channels(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace the slices, or the ``Split``, that halve the channels of an interleaved ``Concat``."""
    if node.attributes != _INTERLEAVED:
        return
    name, shape = node.outputs[0], graph.shape(node.inputs[0])
    if name in graph.outputs or shape is None:
        return
    channels = int(shape[1] or 0)
    readers = [each for each in graph.consumers(name) if not each.is_op("Shape")]
    if len(readers) == 1 and readers[0].is_op("Split"):
        outputs = readers[0].outputs if _is_halving(graph, readers[0], channels) else []
    else:
        found = {_half(graph, each, channels): each.outputs[0] for each in readers}
        outputs = [found[half] for half in (0, 1) if half in found] if len(found) == len(readers) else []
    if len(outputs) != 2 or not only_for_sizes(graph, [name], readers):
        return
    origins = frozenset().union(*(each.origins for each in readers))
    slot = min(each.slot for each in readers)
    graph.replace(readers, [(slot, WorkingNode("Split", [name], outputs, {"axis": 1}, origins))])


def pixel_shuffle(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape``, ``Transpose`` and ``Reshape`` that make squares of pixels of channels."""
    if not node.is_op("Transpose") or node.attributes.get("perm") != _TO_PIXELS:
        return
    divide, join = graph.producer(node.inputs[0]), reader_beside_sizes(graph, node.outputs[0], "Reshape")
    if divide is None or not divide.is_op("Reshape") or join is None:
        return
    before, divided, joined = (graph.shape(name) for name in (divide.inputs[0], *node.inputs, *join.outputs))
    if before is None or divided is None or joined is None or len(before) != _RANK:
        return
    if not all(isinstance(size, int) and size > 0 for size in (*before[1:], divided[2])):
        return
    (channels, height, width), block = (int(size or 0) for size in before[1:]), int(divided[2] or 0)
    planes, rest = divmod(channels, block**2)
    if rest or divided[1:] != (planes, block, block, height, width):
        return
    # With these sizes, the first axis has to stay as it is.
    if joined[1:] != (planes, block * height, block * width):
        return
    old = [divide, node, join]
    if graph.opsets.get("", 1) < _MODE_OF_DEPTH_TO_SPACE or not only_for_sizes(
        graph, [name for each in old[:-1] for name in each.outputs], old
    ):
        return
    origins = frozenset().union(*(each.origins for each in old))
    attributes = {"blocksize": block, "mode": "CRD"}
    graph.replace(old, [(join.slot, WorkingNode("DepthToSpace", divide.inputs[:1], join.outputs, attributes, origins))])


def _is_halving(graph: WorkingGraph, node: WorkingNode, channels: int) -> bool:
    """Return whether a ``Split`` makes two parts of this many channels."""
    sizes = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    written = node.attributes.get("split", [channels, channels] if sizes is None else sizes.tolist())
    known = sizes is not None or len(node.inputs) < 2 or not node.inputs[1]
    axis = node.attributes.get("axis", 0)
    return known and len(node.outputs) == 2 and axis in (1, 1 - _RANK) and list(written) == [channels, channels]


def _half(graph: WorkingGraph, node: WorkingNode, channels: int) -> int | None:
    """Return which half of the channels a ``Slice`` takes: 0 or 1."""
    if not node.is_op("Slice") or not 4 <= len(node.inputs) <= 5:
        return None
    values = [graph.constants.get(name) for name in node.inputs[1:]]
    if any(value is None or value.size != 1 for value in values):
        return None
    start, end, axis, step = [int(value.item()) for value in values if value is not None] + [1] * (5 - len(node.inputs))
    if axis not in (1, 1 - _RANK) or step != 1:
        return None
    if start == 0 and end == channels:
        return 0
    return 1 if start == channels and end >= 2 * channels else None
