"""Connect plugins directly where only views are between them, and the reader has the shape that the giver had.

Each kernel has its own shapes: a dense layer has rows. A ``Reshape`` behind a plugin gives the shape that the file has,
and one before the next plugin takes it away again. Where a tensor has a packed layout, TensorRT converts it for both.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper

from lenet_trt.fuse.cut import Uses, remove_unused
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.shapes import UNKNOWN, Shape

# These leave all elements where they are.
_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")


def connect_directly(graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> None:
    """Let plugins read what other plugins give, without views between them that end in the shape of the beginning.

    ``shapes``: of what plugins give, by name; -1: not known. Views that nothing reads any more are removed.
    """
    before = Uses(graph)
    targets = {tensor.name: tensor for tensor in graph.initializer}
    left: list[str] = []
    for node in graph.node:
        if node.domain != DOMAIN:
            continue
        for index, name in enumerate(node.input):
            source = _source(graph, before, targets, shapes, name)
            if source is not None:
                node.input[index] = source
                left.append(name)
    if left:
        _remove_unread(graph, before, left)
        remove_unused(graph, before)


def _source(
    graph: onnx.GraphProto,
    uses: Uses,
    targets: Mapping[str, onnx.TensorProto],
    shapes: Mapping[str, Shape],
    name: str,
) -> str | None:
    """Return what a plugin gives, of which a value is a view that has its shape; None where there is none."""
    view = _producer(graph, uses, name)
    if view is None or view.op_type != "Reshape" or view.input[1] not in targets:
        return None
    shape = tuple(numpy_helper.to_array(targets[view.input[1]]).tolist())
    while (view := _producer(graph, uses, name)) is not None and view.domain == "" and view.op_type in _VIEWS:
        name = view.input[0]
    return name if name in shapes and _is_same(shapes[name], shape) else None


def _producer(graph: onnx.GraphProto, uses: Uses, name: str) -> onnx.NodeProto | None:
    index = uses.producer.get(name)
    return None if index is None else graph.node[index]


def _is_same(shape: Shape, target: Shape) -> bool:
    """Return whether a ``Reshape`` to the target gives this shape, of as many elements; one size tells itself."""
    if len(shape) != len(target):
        return False
    open_sizes = sum(one == UNKNOWN or other < 1 for one, other in zip(shape, target, strict=True))
    equal = sum(one == other >= 1 for one, other in zip(shape, target, strict=True))
    return open_sizes <= 1 and open_sizes + equal == len(shape)


def _remove_unread(graph: onnx.GraphProto, uses: Uses, left: list[str]) -> None:
    """Remove what computes these values, where no node reads it any more."""
    after = Uses(graph)
    gone: set[int] = set()
    pending = list(left)
    while pending:
        index = uses.producer.get(pending.pop())
        if index is None or index in gone:
            continue
        outputs = graph.node[index].output
        if any(name in after.graph_outputs or after.readers.get(name, set()) - gone for name in outputs):
            continue
        gone.add(index)
        pending.extend(after.reads[index])
    for index in sorted(gone, reverse=True):
        del graph.node[index]
