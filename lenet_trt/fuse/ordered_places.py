"""Find the places in a model where kernels can be used, with layers written and ordered as kernels take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeAlias

import onnx

from lenet_trt.fuse.constant_sizes import with_known_sizes
from lenet_trt.fuse.dense_pixels import with_dense_pixels
from lenet_trt.fuse.heads_second import with_heads_second
from lenet_trt.fuse.joined_layers import with_joined_layers
from lenet_trt.fuse.joined_tokens import with_joined_tokens
from lenet_trt.fuse.normal_form import attention_form, plain_form
from lenet_trt.fuse.norms_of_readers import with_norms_of_readers
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

    It is the given model, or one whose pointwise convolutions are dense layers, and whose norms have one reader each,
    where kernels are chosen for all of these; and one whose dense layers around attentions are joined, or have their
    rows in another order, where a kernel takes the attention so.

    ``usual``: sizes of open axes at which ``claims_on`` says which kernels are chosen; the places are for all sizes.
    """
    plain = plain_form(model)
    for rewritten in (with_known_sizes, with_norms_of_sums):
        changed = rewritten(model, plain)
        if changed is not model:
            model, plain = changed, plain_form(changed)
    claims_on_places = None if usual else claims_on
    found: Found | None = None
    for written_so in (with_dense_pixels, with_norms_of_readers):
        changed, written = written_so(model, plain)
        if not written:
            continue
        plain_so = plain_form(changed)
        found_so = _around_attentions(changed, plain_so, kernels, claims_on_places)
        # What no kernel takes is slower there: TensorRT has its own layers for convolutions, and one norm is enough.
        if written <= _taken(found_so, kernels, claims_on, usual):
            model, plain, found = changed, plain_so, found_so
    return found or _around_attentions(model, plain, kernels, claims_on_places)


def _taken(
    found: Found, kernels: Sequence[Kernel], claims_on: Sequence[int] | None, usual: Mapping[str, int] | None
) -> frozenset[str]:
    """Return what the nodes give that kernels are chosen for, at the usual sizes if there are any."""
    model, places, _ = found
    if claims_on is not None and usual:
        model = with_sizes(model, usual)
        places, _ = find_places(model, kernels, claims_on)
    return _values_of(model, nodes_of(chosen(places)))


def _around_attentions(
    model: onnx.ModelProto, plain: WorkingGraph, kernels: Sequence[Kernel], claims_on: Sequence[int] | None
) -> Found:
    """Return the model with layers changed around the attentions that kernels take so, and what is found in it.

    Around others they stay, since that is faster there: wider rows would be moved, or slices be copied.
    """
    in_any_order = any(pattern.any_row_order for kernel in kernels for pattern in kernel.patterns)
    if not in_any_order or all(node.op_type != "Softmax" for node in model.graph.node):
        return model, *find_places(model, kernels, claims_on, plain)
    form = attention_form(model, plain)
    left: frozenset[str] = frozenset()
    while True:
        changed, plain_changed, inside = _changed(model, plain, form, left)
        places, refused = find_places(changed, kernels, claims_on, plain_changed)
        taken = nodes_of(place for place in chosen(places) if place.match.pattern.any_row_order)
        not_taken = inside - _values_of(changed, taken)
        if not not_taken:
            return changed, places, refused
        left |= not_taken  # more each time: none of those left before is inside again


def _values_of(model: onnx.ModelProto, nodes: Iterable[int]) -> frozenset[str]:
    return frozenset(name for index in nodes for name in model.graph.node[index].output)


def _changed(
    model: onnx.ModelProto, plain: WorkingGraph, form: WorkingGraph, left: Set[str]
) -> tuple[onnx.ModelProto, WorkingGraph | None, frozenset[str]]:
    """Return the model with other layers around attentions, its plain form if there is one, and values inside these.

    ``form``: the model in the form in which attention is written in one way. ``left``: the values inside attentions
    around which layers stay.
    """
    changed, inside = model, frozenset[str]()
    current: WorkingGraph | None = plain
    for rewritten in (with_heads_second, with_joined_tokens, with_joined_layers, with_rows_in_order):
        if current is None:
            current = plain_form(changed)
            form = attention_form(changed, current)
        changed, values = rewritten(changed, form, left)
        inside |= values
        current = None if values else current
    return changed, current, inside
