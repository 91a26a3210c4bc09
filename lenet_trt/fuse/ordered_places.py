"""Find the places in a model where kernels can be used, with its rows in the order that they take, if they take any."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from lenet_trt.fuse.match import Match
from lenet_trt.fuse.normal_form import attention_form, plain_form
from lenet_trt.fuse.places import Place, find_places
from lenet_trt.fuse.row_order import with_rows_in_order
from lenet_trt.kernel.declaration import Kernel


def places_in_order(
    model: onnx.ModelProto, kernels: Sequence[Kernel], claims_on: Sequence[int] | None = None
) -> tuple[onnx.ModelProto, list[Place], list[tuple[Match, tuple[str, ...], str]]]:
    """Return the model, and what ``find_places`` finds in it.

    It is the given model, or one with the rows of the dense layers around attentions in another order, where a kernel
    takes every attention so.
    """
    plain = plain_form(model)
    if any(pattern.any_row_order for kernel in kernels for pattern in kernel.patterns):
        reordered, moved = with_rows_in_order(model, lambda of: attention_form(of, plain if of is model else None))
        if moved:
            places, refused = find_places(reordered, kernels, claims_on)
            inside = [place.match.origins for place in places if place.match.pattern.any_row_order]
            taken = {name for index in frozenset().union(*inside) for name in reordered.graph.node[index].output}
            # An attention that no kernel takes is slower there: wider rows are moved.
            if moved <= taken:
                return reordered, places, refused
    return model, *find_places(model, kernels, claims_on, plain)
