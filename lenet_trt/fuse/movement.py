"""Follow the elements of a tensor through nodes that move them, such as ``Reshape``, ``Transpose`` and ``Gather``.

A layout says for each axis of a tensor where its elements lie in another tensor, the source: each axis has factors
(size, stride in the source), outer ones first. An axis that a ``Reshape`` joined of two others has two factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode
from lenet_trt.onnx_model.open_sizes import Size

Factor: TypeAlias = "tuple[int, int]"  # size and stride
Axis: TypeAlias = "tuple[Factor, ...]"

# Stands for the name of an open axis: a prime, so that it is seen in the product with other sizes.
OPEN = 1_000_003
OF_ALL = ("Reshape", "Transpose", "Squeeze", "Unsqueeze")  # elements
MOVEMENTS = (*OF_ALL, "Gather", "GatherND", "Slice", "Split")
REPEATING = (*MOVEMENTS, "Expand")  # of which elements are there several times
# The attribute perm of a ``Transpose`` of maps.
TO_CHANNELS_LAST, TO_CHANNELS_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


@dataclass(frozen=True)
class StridedLayout:
    """Say where the elements of a tensor lie in its source."""

    axes: tuple[Axis, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the axes."""
        return tuple(prod(size for size, _ in axis) for axis in self.axes)

    @property
    def factors(self) -> Axis:
        """Return the factors of all axes, in the order in which the tensor has its elements."""
        return joined_factors(factor for axis in self.axes for factor in axis)

    def transposed(self, perm: Sequence[int]) -> StridedLayout:
        """Return the layout after a ``Transpose``."""
        return replace(self, axes=tuple(self.axes[axis] for axis in perm))

    def last_two_swapped(self) -> StridedLayout:
        """Return the layout after a ``Transpose`` of the last two axes."""
        return replace(self, axes=(*self.axes[:-2], *self.axes[:-3:-1]))

    def reshaped(self, shape: Sequence[int]) -> StridedLayout | None:
        """Return the layout after a ``Reshape``; None where an axis would have a part of a factor."""
        if prod(shape) != prod(self.shape) or 0 in shape:
            return None
        left = list(self.factors)
        axes = []
        for size in shape:
            axis: list[Factor] = []
            while size > 1:
                count, stride = left.pop(0)
                taken = min(size, count)
                if size % taken or count % taken:
                    return None
                if taken < count:
                    left.insert(0, (count // taken, stride))
                axis.append((taken, count // taken * stride))
                size //= taken
            axes.append(joined_factors(axis))
        return replace(self, axes=tuple(axes))

    def repeated(self, shape: Sequence[int]) -> StridedLayout | None:
        """Return the layout after an ``Expand`` of axes of size 1, whose elements are then the same."""
        if len(shape) != len(self.axes):
            return None
        axes = zip(self.axes, self.shape, shape, strict=True)
        return replace(self, axes=tuple(axis if size == wide else ((wide, 0),) for axis, size, wide in axes))

    def part(self, axis: int, start: int, size: int) -> StridedLayout | None:
        """Return the layout of elements ``start`` and following of an axis; None where the axis has several factors."""
        if start == 0 and (size,) == self.shape[axis : axis + 1]:
            return self
        if len(self.axes[axis]) > 1:
            return None
        ((_, stride),) = self.axes[axis] or ((1, 0),)
        axes = (*self.axes[:axis], joined_factors([(size, stride)]), *self.axes[axis + 1 :])
        return StridedLayout(axes, self.offset + start * stride)


def as_it_lies(shape: Sequence[int]) -> StridedLayout:
    """Return the layout of a tensor in itself."""
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return StridedLayout(tuple(joined_factors([factor]) for factor in zip(shape, strides, strict=True)))


def joined_factors(factors: Iterable[Factor]) -> Axis:
    """Return the factors without those of size 1, two as one where one stride serves both."""
    result: list[Factor] = []
    for size, stride in factors:
        if size == 1:
            continue
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def known_sizes_of(graph: WorkingGraph, name: str) -> tuple[int, ...] | None:
    """Return the shape of a value, with a multiple of ``OPEN`` for the one size that is open.

    None where other sizes are not known. The multiple is the number in the size: 64 in "64*n".
    """
    shape = graph.shape(name)
    if shape is None or None in shape or len({size for size in shape if isinstance(size, str)}) > 1:
        return None
    return tuple(size if isinstance(size, int) else Size.of_axis(size or "").factor * OPEN for size in shape)


def as_view(graph: WorkingGraph, name: str, view: str, sizes: Sequence[int]) -> WorkingNode:
    """Return a view of a value, a ``Reshape`` without origins; the caller places it, and learns its shape."""
    target = graph.add_constant(f"{view}.shape", np.array(written(sizes), np.int64))
    return WorkingNode("Reshape", [name, target], [view], {}, frozenset())


def written(sizes: Sequence[int]) -> list[int]:
    """Return sizes as the shape of a ``Reshape``: -1 for the one that is open."""
    return [-1 if size % OPEN == 0 else size for size in sizes]


def source_of(
    graph: WorkingGraph, name: str, operators: Sequence[str] = MOVEMENTS
) -> tuple[str, list[tuple[WorkingNode, str]]]:
    """Return the value from which a value is moved, and the nodes that do it, each with its output, the first first."""
    steps: list[tuple[WorkingNode, str]] = []
    while (
        (node := graph.producer(name)) is not None and node.is_op(*operators) and node.inputs[0] not in graph.constants
    ):
        steps.insert(0, (node, name))
        name = node.inputs[0]
    return name, steps


def moved(graph: WorkingGraph, node: WorkingNode, layout: StridedLayout, output: str) -> StridedLayout | None:
    """Return the layout of a node's output, of the layout of its input; None where it has none."""
    shape = known_sizes_of(graph, output)
    if shape is None or known_sizes_of(graph, node.inputs[0]) != layout.shape:
        return None
    if node.is_op("Transpose"):
        rank = len(layout.axes)
        return layout.transposed(node.attributes.get("perm", [*range(rank)][::-1]))
    if node.is_op("Reshape", "Squeeze", "Unsqueeze"):
        return layout.reshaped(shape)
    if node.is_op("Expand"):
        return layout.repeated(shape)
    if node.is_op("Gather", "GatherND"):
        return _gathered(graph, node, layout)
    if node.is_op("Split"):
        axis = node.attributes.get("axis", 0) % len(shape)
        sizes = [known_sizes_of(graph, name) for name in node.outputs]
        before = [size[axis] if size else None for size in sizes[: node.outputs.index(output)]]
        return None if None in before else layout.part(axis, sum(filter(None, before)), shape[axis])
    return _sliced(graph, node, layout, shape) if node.is_op("Slice") else None


def layout_after(
    graph: WorkingGraph, layout: StridedLayout | None, steps: Sequence[tuple[WorkingNode, str]]
) -> StridedLayout | None:
    """Return the layout of what these nodes give one after the other."""
    for node, output in steps:
        layout = None if layout is None else moved(graph, node, layout, output)
    return layout


def part_of_slice(graph: WorkingGraph, node: WorkingNode) -> list[tuple[int, int, int]] | None:
    """Return (axis, start, size) for each axis of a ``Slice`` without steps; None where they are not known."""
    shape, result = known_sizes_of(graph, node.inputs[0]), known_sizes_of(graph, node.outputs[0])
    values = [graph.constants.get(name) for name in node.inputs[1:] if name]
    if shape is None or result is None or len(values) < 2 or any(value is None for value in values):
        return None
    starts, _, *rest = [value.reshape(-1).tolist() for value in values if value is not None]
    axes = rest[0] if rest else [*range(len(starts))]
    if len(rest) > 1 and set(rest[1]) != {1}:
        return None
    parts = []
    for start, axis in zip(starts, axes, strict=True):
        size = shape[axis]
        first = min(max(start + size if start < 0 else start, 0), size)
        parts.append((axis % len(shape), first, result[axis]))
    return parts


def half_of(graph: WorkingGraph, name: str) -> tuple[str, int] | None:
    """Return the tensor of whose last axis a value is a half, and which: 0 for the first one, 1 for the second."""
    node = graph.producer(name)
    sizes = None if node is None or not node.is_op("Slice", "Split") else known_sizes_of(graph, node.inputs[0])
    if node is None or not sizes or sizes[-1] % 2:
        return None
    layout, last, half = as_it_lies(sizes), len(sizes) - 1, sizes[-1] // 2
    part = moved(graph, node, layout, name)
    which = next((index for index in (0, 1) if part == layout.part(last, index * half, half)), None)
    return None if which is None else (node.inputs[0], which)


def _gathered(graph: WorkingGraph, node: WorkingNode, layout: StridedLayout) -> StridedLayout | None:
    index = graph.constants.get(node.inputs[1])
    if index is not None and node.is_op("GatherND"):  # [[i]] takes i of the first axis, as [i] of Gather does
        index = index[0] if index.shape == (1, 1) and not node.attributes.get("batch_dims") else None
    if index is None or index.size != 1 or index.ndim > 1:
        return None
    axis = node.attributes.get("axis", 0) % len(layout.axes)
    number = int(index.item())
    one = layout.part(axis, number % layout.shape[axis], 1)
    if one is None:
        return None
    return one if index.ndim else replace(one, axes=(*one.axes[:axis], *one.axes[axis + 1 :]))


def _sliced(
    graph: WorkingGraph, node: WorkingNode, layout: StridedLayout, shape: Sequence[int]
) -> StridedLayout | None:
    result: StridedLayout | None = layout
    for axis, start, size in part_of_slice(graph, node) or []:
        result = None if result is None else result.part(axis, start, size)
    return result if result is not None and result.shape == tuple(shape) else None
