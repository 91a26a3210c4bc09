"""Let plugins read a part of a tensor where it lies: an input that a network slices out, where the kernel has ``part``.

    one of several equal parts: a ``Slice``, an output of a ``Split``, a ``Gather`` of one index
    is
    the whole tensor, and which part

TensorRT would copy each part, since a plugin's inputs are dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from lenet_trt.fuse.movement import OF_ALL, as_it_lies, joined_factors, known_sizes_of, layout_after, source_of, written
from lenet_trt.fuse.place_views import Input
from lenet_trt.fuse.working_copy import WorkingGraph
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.shapes import Shape


def read_in_place(
    graph: WorkingGraph, kernel: Kernel, inputs: Sequence[Input], shapes: Sequence[Shape]
) -> tuple[tuple[Input, ...], list[Shape], dict[str, int]]:
    """Return a plugin node's inputs and their shapes, with whole tensors for parts, and attributes that say which."""
    given, seen, attributes = list(inputs), list(shapes), {}
    declared = {attribute.name: attribute for attribute in kernel.attributes}
    for index, tensor in enumerate(kernel.inputs):
        name = inputs[index].name
        if tensor.part and name is not None and inputs[index].array is None and not inputs[index].nodes:
            found = _whole(graph, name, shapes[index])
            if found is not None and declared[tensor.part].checked(found[2]) is not None:
                whole, seen[index], attributes[tensor.part] = found
                given[index] = replace(inputs[index], name=whole, view=seen[index])
    return tuple(given), seen, attributes


def _whole(graph: WorkingGraph, name: str, shape: Shape) -> tuple[str, Shape, int] | None:
    """Return the tensor of which ``name`` is a part, its shape with an axis of parts, and which part it is."""
    source, steps = source_of(graph, name, (*OF_ALL, "Slice", "Split", "Gather"))
    sizes = known_sizes_of(graph, source)
    if len(shape) != 3 or shape[1] != 1 or not sizes or graph.added_for(source):
        return None
    layout = layout_after(graph, as_it_lies(sizes), steps)
    if layout is None:
        return None
    length = shape[2]
    images = prod(layout.shape) // length
    parts, rest = divmod(prod(sizes), images * length)
    part, within = divmod(layout.offset, length)
    if parts == 1 or rest or within or layout.factors != joined_factors([(images, parts * length), (length, 1)]):
        return None
    return source, (*written([images]), parts, length), part
