"""Check that the ONNX function of a plugin node undoes the packing of its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.onnx_function import unpacked
from lenet_trt.fuse.place_views import Input, UnusableError
from lenet_trt.fuse.working_copy import Array, WorkingGraph
from lenet_trt.kernel.shapes import Shape

# fp32 weights may be stored as two fp16 halves; anything coarser would change the network.
_TOLERANCE = 2e-7


def check_packing(graph: WorkingGraph, match: Match, inputs: Sequence[Input], shapes: Sequence[Shape]) -> None:
    """Undo the packing of the kernel's inputs as the ONNX function will, and compare.

    Raises:
        LenetTrtError: the weights do not come back; the kernel's declaration is wrong.
        UnusableError: a weight is not finite, so that nothing can be compared.
    """
    kernel, opset = match.kernel, graph.opsets.get("", 1)
    plain = {t.name: graph.constants[match.values[t.name]] for t in kernel.plain_inputs if t.weight}
    wide = {name: array.astype(np.promote_types(np.float32, array.dtype)) for name, array in plain.items()}
    for name, array in wide.items():
        if not np.isfinite(array).all():
            raise UnusableError(f"the weight {name} has NaN or infinity")
    nodes, names = unpacked(kernel, {name: array.shape for name, array in plain.items()}, opset)
    make = helper.make_tensor_value_info
    given: dict[str, Array] = {}
    for tensor, entry, shape in zip(kernel.inputs, inputs, shapes, strict=True):
        # Of what is no weight only the shape can be read; an open size may be any.
        stand_in = np.broadcast_to(np.float32(0), [max(size, 1) for size in shape])
        given[tensor.name] = entry.array if tensor.weight and entry.array is not None else stand_in
    ports = [make(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in given.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in names.values()]
    model = helper.make_model(
        helper.make_graph(nodes, "unpack", ports, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    results = dict(zip(names, ReferenceEvaluator(model).run(None, given), strict=True))
    for name, wanted in wide.items():
        seen = np.asarray(results.get(name))
        most = _TOLERANCE * np.max(np.abs(wanted), initial=0.0)
        # A difference that is NaN is none that is small enough.
        if seen.shape != wanted.shape or not np.max(np.abs(seen.astype(wanted.dtype) - wanted), initial=0.0) <= most:
            raise LenetTrtError(f"{kernel.name}: unpack does not give back the weight {name} that pack was given")
