"""Find the places in a model where kernels can be used, with layers written and ordered as kernels take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import onnx

from lenet_trt.fuse.constant_sizes import with_known_sizes
from lenet_trt.fuse.dense_pixels import with_dense_pixels
from lenet_trt.fuse.joined_layers import with_joined_layers
from lenet_trt.fuse.normal_form import attention_form, plain_form
from lenet_trt.fuse.norms_of_sums import with_norms_of_sums
from lenet_trt.fuse.place_choice import chosen, nodes_of
from lenet_trt.fuse.places import Place, find_places
from lenet_trt.fuse.row_order import with_rows_in_order
from lenet_trt.fuse.working_copy import WorkingGraph
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import Refusal

Found: TypeAlias = "tuple[onnx.ModelProto, list[Place], list[Refusal]]"


def places_in_order(
    model: onnx.ModelProto,
    kernels: Sequence[Kernel],
    claims_on: Sequence[int] | None = None,
    usual: Mapping[str, int] | None = None,
) -> Found:
    """Return the model, and what ``find_places`` finds in it.

    It is the given model, or one whose pointwise convolutions are dense layers, where kernels are chosen for all of
    these; and one whose dense layers around attentions are joined, or have their rows in another order, where a kernel
    takes every attention so.

    ``usual``: sizes of open axes at which ``claims_on`` says which kernels are chosen; the places are for all sizes.
    """
    plain = plain_form(model)
    for rewritten in (with_known_sizes, with_norms_of_sums):
        changed = rewritten(model, plain)
        if changed is not model:
            model, plain = changed, plain_form(changed)
    claims_on_places = None if usual else claims_on
    changed, written = with_dense_pixels(model, plain)
    if written:
        found = _around_attentions(changed, plain_form(changed), kernels, claims_on_places)
        changed, places, _ = found
        if claims_on is not None and usual:
            changed = with_sizes(changed, usual)
            places, _ = find_places(changed, kernels, claims_on)
        # A layer that no kernel takes is slower there: TensorRT has its own for convolutions.
        if written <= _values_of(changed, nodes_of(chosen(places))):
            return found
    return _around_attentions(model, plain, kernels, claims_on_places)


def _around_attentions(
    model: onnx.ModelProto, plain: WorkingGraph, kernels: Sequence[Kernel], claims_on: Sequence[int] | None
) -> Found:
    if any(pattern.any_row_order for kernel in kernels for pattern in kernel.patterns):
        for changed, form, inside in _changed(model, plain):
            places, refused = find_places(changed, kernels, claims_on, form)
            taken = nodes_of(place for place in places if place.match.pattern.any_row_order)
            # An attention that no kernel takes is slower there: wider rows are moved, or slices are copied.
            if inside <= _values_of(changed, taken):
                return changed, places, refused
    return model, *find_places(model, kernels, claims_on, plain)


def _values_of(model: onnx.ModelProto, nodes: Iterable[int]) -> frozenset[str]:
    return frozenset(name for index in nodes for name in model.graph.node[index].output)


def _changed(
    model: onnx.ModelProto, plain: WorkingGraph
) -> Iterable[tuple[onnx.ModelProto, WorkingGraph | None, frozenset[str]]]:
    """Yield models with other layers around attentions, their plain forms, and values that lie in the attentions."""
    if all(node.op_type != "Softmax" for node in model.graph.node):
        return
    form = attention_form(model, plain)
    joined, slices = with_joined_layers(model, form)
    if slices:
        of_joined = plain_form(joined)
        reordered, moved = with_rows_in_order(joined, attention_form(joined, of_joined))
        yield reordered, None if moved else of_joined, slices | moved
    reordered, moved = with_rows_in_order(model, form)
    if moved:
        yield reordered, None, moved
