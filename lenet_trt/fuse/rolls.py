"""Find where a graph rolls an axis of a tensor, as ``torch.roll``: a ``Concat`` of two ``Slice`` that change places."""

from __future__ import annotations

from dataclasses import dataclass

from lenet_trt.fuse.movement import known_sizes_of, part_of_slice
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


@dataclass(frozen=True)
class Roll:
    """Hold a roll: the element at i of ``output`` is the one at i + ``shift`` of ``source``, beginning again at 0."""

    source: str
    output: str
    axis: int
    shift: int
    nodes: tuple[WorkingNode, ...]  # two ``Slice`` and a ``Concat``


def roll_of(graph: WorkingGraph, name: str) -> Roll | None:
    """Return the roll that computes a value."""
    concat = graph.producer(name)
    if concat is None or not concat.is_op("Concat") or len(concat.inputs) != 2:
        return None
    slices = [graph.producer(part) for part in concat.inputs]
    first, second = slices
    if first is None or second is None or not (first.is_op("Slice") and second.is_op("Slice")):
        return None
    source, shape = first.inputs[0], known_sizes_of(graph, first.inputs[0])
    parts = [part_of_slice(graph, each) for each in (first, second)]
    if shape is None or second.inputs[0] != source or parts[0] is None or parts[1] is None:
        return None
    axis = concat.attributes.get("axis", 0) % len(shape)
    if [len(part) for part in (parts[0], parts[1])] != [1, 1]:
        return None
    (axis_of_first, shift, size), (axis_of_second, start, before) = parts[0][0], parts[1][0]
    whole = shift + size == shape[axis] and start == 0 and before == shift
    if not axis == axis_of_first == axis_of_second or not whole:
        return None
    return Roll(source, name, axis, shift, (first, second, concat))


def roll_after(graph: WorkingGraph, name: str) -> Roll | None:
    """Return the roll that alone reads a value."""
    readers = graph.consumers(name)
    if len(readers) != 2 or name in graph.outputs or not all(each.is_op("Slice") for each in readers):
        return None
    concat = graph.only_consumer(readers[0].outputs[0])
    roll = None if concat is None else roll_of(graph, concat.outputs[0])
    return roll if roll is not None and roll.source == name else None
