"""Find out whether a ``Reshape`` flattens to [batch, everything else], by constants or from a ``Shape``."""

from __future__ import annotations

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode, count


def is_flatten(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a ``Reshape`` gives [batch, everything else] for every batch size."""
    shape = graph.shape(node.inputs[0])
    if shape is None or len(shape) < 2:
        return False
    features = count(shape[1:])
    target = graph.constants.get(node.inputs[1])
    if target is None:
        return _is_computed_flatten(graph, node, features)
    if target.shape != (2,):
        return False
    first, second = (int(value) for value in target)
    copies_batch = first == 0 and not node.attributes.get("allowzero", 0)
    keeps_batch = copies_batch or (first > 0 and first == shape[0])
    return (keeps_batch and second in (-1, features)) or (first == -1 and second == features)


def _is_computed_flatten(graph: WorkingGraph, node: WorkingNode, features: int | None) -> bool:
    """Return whether the target is [batch, rest] with a batch computed from ``Shape`` and a constant rest."""
    mine = graph.shape(node.inputs[0])
    if features is not None and mine and mine[0] is not None and graph.shape(node.outputs[0]) == (mine[0], features):
        return True
    concat = graph.producer(node.inputs[1])
    while concat is not None and concat.is_op("Cast"):
        concat = graph.producer(concat.inputs[0])
    if concat is None or not concat.is_op("Concat") or len(concat.inputs) != 2:
        return False
    rest = graph.constants.get(concat.inputs[1])
    if rest is None or rest.size != 1 or graph.shape(concat.inputs[0]) != (1,):
        return False
    if features is not None and int(rest.item()) == features:
        return True  # then the first can only be the batch
    source = _whose_batch(graph, concat.inputs[0])
    if int(rest.item()) != -1 or source is None:
        return False
    theirs = graph.shape(source)
    return source == node.inputs[0] or bool(mine and theirs and mine[0] is not None and mine[0] == theirs[0])


def _whose_batch(graph: WorkingGraph, name: str) -> str | None:
    """Return the value whose dimension 0 is the first element of ``name``, if a ``Shape`` gave it."""
    node = graph.producer(name)
    if node is None or node.attributes.get("start", 0) != 0:
        return None
    if node.is_op("Shape"):
        return node.inputs[0]
    if node.is_op("Cast", "Unsqueeze", "Squeeze", "Reshape"):
        return _whose_batch(graph, node.inputs[0])
    if node.is_op("Gather", "Slice") and _first_taken(graph, node) == 0:
        return _whose_batch(graph, node.inputs[0])
    return None


def _first_taken(graph: WorkingGraph, node: WorkingNode) -> int | None:
    """Return the index of the first element that a ``Gather`` or ``Slice`` takes, where it is a constant."""
    if "starts" in node.attributes:  # Slice before opset 10
        return int(node.attributes["starts"][0])
    if len(node.inputs) > 4:  # steps are given: it may go backwards
        return None
    indices = graph.constants.get(node.inputs[1])  # of a Gather; the starts of a Slice
    return int(indices.flat[0]) if indices is not None and indices.size else None
