"""Find the nodes of a model that a kernel of this toolkit could replace, for advice that names the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from lenet_trt.fuse.place_choice import chosen
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import chosen_kernels


def replaceable(model: onnx.ModelProto, architectures: Sequence[int]) -> dict[str, str]:
    """Find the kernel for each node that one could replace on these GPUs, by the names that traces have for nodes."""
    places, _ = find_places(model, chosen_kernels("auto"), architectures)
    nodes = model.graph.node
    best = chosen(places)
    order = [*(place for place in places if place not in best), *best]  # what fuse would choose comes last and stays
    return {
        nodes[index].name or nodes[index].output[0]: place.kernel.name
        for place in order
        for index in place.match.origins
    }
