"""Define the rule that adds a number to a value behind a new axis of it, not before.

A norm of diffusion transformers multiplies by 1 + factor, where the factor of an image gets an axis for its tokens:

    Unsqueeze(Add(factor, 1))    is    Add(Unsqueeze(factor), 1)

Most networks write the second one; diffusers' last norm, ``AdaLayerNormContinuous``, has the first one. The
``Unsqueeze`` becomes a view of the factor.
"""

from __future__ import annotations

from lenet_trt.fuse.movement import as_view, known_sizes_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def number_behind_new_axis(graph: WorkingGraph, node: WorkingNode) -> None:
    """Exchange an ``Unsqueeze`` with the ``Add`` of a number before it."""
    add = graph.producer(node.inputs[0]) if node.is_op("Unsqueeze") else None
    if add is None or not add.is_op("Add") or graph.only_consumer(add.outputs[0]) is None:
        return
    value, number = add.inputs
    constant, sizes, rank = graph.constants.get(number), known_sizes_of(graph, node.outputs[0]), graph.rank(value)
    if constant is None or constant.size != 1 or sizes is None or rank is None or constant.ndim > rank:
        return
    view = as_view(graph, value, f"{node.outputs[0]}.before_number", sizes)
    graph.learn_shape(view.outputs[0], graph.shape(node.outputs[0]) or (), value)
    total = WorkingNode("Add", [view.outputs[0], number], list(node.outputs), {}, add.origins | node.origins)
    graph.replace([add, node], [(add.slot, view), (node.slot, total)])
