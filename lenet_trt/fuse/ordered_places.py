"""Find the places in a model where kernels can be used, with the layers around attentions as kernels take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from lenet_trt.fuse.constant_sizes import with_known_sizes
from lenet_trt.fuse.joined_layers import with_joined_layers
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.normal_form import attention_form, plain_form
from lenet_trt.fuse.places import Place, find_places
from lenet_trt.fuse.row_order import with_rows_in_order
from lenet_trt.fuse.working_copy import WorkingGraph
from lenet_trt.kernel.declaration import Kernel


def places_in_order(
    model: onnx.ModelProto, kernels: Sequence[Kernel], claims_on: Sequence[int] | None = None
) -> tuple[onnx.ModelProto, list[Place], list[tuple[Match, tuple[str, ...], str]]]:
    """Return the model, and what ``find_places`` finds in it.

    It is the given model, or one whose dense layers around attentions are joined, or have their rows in another order,
    where a kernel takes every attention so.
    """
    plain = plain_form(model)
    if any(pattern.any_row_order for kernel in kernels for pattern in kernel.patterns):
        for changed, form, inside in _changed(model, plain):
            places, refused = find_places(changed, kernels, claims_on, form)
            parts = [place.match.origins for place in places if place.match.pattern.any_row_order]
            taken = {name for index in frozenset().union(*parts) for name in changed.graph.node[index].output}
            # An attention that no kernel takes is slower there: wider rows are moved, or slices are copied.
            if inside <= taken:
                return changed, places, refused
    return model, *find_places(model, kernels, claims_on, plain)


def _changed(
    model: onnx.ModelProto, plain: WorkingGraph
) -> Iterable[tuple[onnx.ModelProto, WorkingGraph | None, frozenset[str]]]:
    """Yield models with other layers around attentions, their plain forms, and values that lie in the attentions."""
    if all(node.op_type != "Softmax" for node in model.graph.node):
        return
    form = attention_form(model, plain)
    sized = with_known_sizes(model, form)  # what computes sizes, as of a mask, may read the layers
    if sized is not model:
        model, form = sized, attention_form(sized)
    joined, slices = with_joined_layers(model, form)
    if slices:
        of_joined = plain_form(joined)
        reordered, moved = with_rows_in_order(joined, attention_form(joined, of_joined))
        yield reordered, None if moved else of_joined, slices | moved
    reordered, moved = with_rows_in_order(model, form)
    if moved:
        yield reordered, None, moved
