"""Make the ONNX functions that stand for plugin nodes: one for each kernel, which all its places share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.onnx_function import Numbers, attribute_numbers, body_of, onnx_function
from lenet_trt.fuse.places import Place
from lenet_trt.kernel.pattern import DOMAIN


def functions_for(
    model: onnx.ModelProto, places: Sequence[Place]
) -> tuple[list[onnx.FunctionProto], list[Place], list[tuple[Place, str]]]:
    """Make one function for each kernel; places that need a second function are left out, with the reason."""
    opset = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)
    present = {function.name: function for function in model.functions if function.domain == DOMAIN}
    functions: list[onnx.FunctionProto] = []
    usable: list[Place] = []
    refused: list[tuple[Place, str]] = []
    for kernel in dict.fromkeys(place.kernel for place in places):
        group = []
        own = {place: _body(place, place.match, opset) for place in places if place.kernel is kernel}
        bodies = _most_common(own)
        for place, body in own.items():
            covering = place.match.pattern.covered_by
            shared = bodies[attribute_numbers(kernel, place.match)]
            if body == shared or (covering and _body(place, replace(place.match, pattern=covering), opset) == shared):
                group.append(place)
            else:
                refused.append((place, "another of its places in this file has other nodes; they share one function"))
        try:
            function = onnx_function(kernel, bodies, opset)
        except LenetTrtError as error:
            refused += [(place, str(error)) for place in group]
            continue
        if present.get(kernel.name, function) == function:
            functions.append(function)
            usable += group
        else:
            reason = "the file has another body for it from an earlier run: fuse the original file"
            refused += [(place, reason) for place in group]
    return functions, usable, refused


def _most_common(bodies: Mapping[Place, list[onnx.NodeProto]]) -> dict[Numbers, list[onnx.NodeProto]]:
    """Return the body that most places have, for each choice of attributes; those that another one covers come last."""
    seen: dict[Numbers, list[tuple[bool, list[onnx.NodeProto]]]] = {}
    for place, body in bodies.items():
        numbers = attribute_numbers(place.kernel, place.match)
        seen.setdefault(numbers, []).append((place.match.pattern.covered_by is None, body))
    return {numbers: max(each, key=lambda one: (one[0], each.count(one)))[1] for numbers, each in seen.items()}


def _body(place: Place, match: Match, opset: int) -> list[onnx.NodeProto]:
    dtype = place.specialized.types.of(place.kernel.inputs)[0]
    return body_of(match, place.plain_shapes, place.narrowed, opset, dtype)
