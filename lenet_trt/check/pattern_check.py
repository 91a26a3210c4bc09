"""Check that a kernel's patterns are found in their own models, and that the replacement computes the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.pattern_model import NoModelError, pattern_model
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import SEED, attributes_text, expected_outputs, plain_inputs, relative_error
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime

# ONNX Runtime computes with these on a CPU, rounding to 16 bits after each operator. It adds products of integers in
# float32, so that a sum half way between two integers may be rounded to either.
_RUNTIME_TOLERANCE = {"float32": 5e-6, "float16": 1e-2, "int8": 1e-3}
_LARGEST_ELEMENTS = 1 << 22


def pattern_problems(kernel_bounds: Sequence[Bound]) -> Iterator[str]:
    """Try every call for which a pattern stands; yield what is wrong with any of them.

    Each call becomes a model of the pattern and random weights; the model is fused, run by ONNX Runtime and compared
    with the reference.
    """
    for bound in kernel_bounds:
        fitting = [p for p in bound.kernel.patterns if p.attributes.items() <= bound.attributes.items()]
        patterns = {pattern.onnx_graph: pattern for pattern in fitting}.values()
        found: list[onnx.ModelProto] = []
        reasons: list[NoModelError] = []
        try:
            for pattern in patterns:
                try:
                    found.append(pattern_model(bound, pattern))
                except NoModelError as reason:
                    reasons.append(reason)
        except LenetTrtError as error:
            yield str(error)
            continue
        if patterns and not found:
            yield f"no pattern is valid ONNX for the types {bound.types.name}: {reasons[0]}"
        for model in found:
            try:
                problem = _problem(bound, model)
            except LenetTrtError as error:
                problem = str(error)
            if problem:
                axes = ", ".join(f"{name}={value}" for name, value in bound.axes.items())
                yield f"{bound.types.name} {axes}{attributes_text(bound)}: {problem}"


def small_bounds(kernel_bounds: Iterator[Bound]) -> list[Bound]:
    """Return the calls that take a CPU little time."""
    return [b for b in kernel_bounds if all(np.prod(shape) <= _LARGEST_ELEMENTS for shape in b.input_shapes)]


def _problem(bound: Bound, model: onnx.ModelProto) -> str | None:
    kernel = bound.kernel
    fused = fuse(model, [kernel])
    nodes = [node for node in fused.model.graph.node if node.domain == DOMAIN]
    if len(nodes) != 1:
        return f"{len(nodes)} plugin nodes replace it, not 1"
    seen = {entry.name: helper.get_attribute_value(entry) for entry in nodes[0].attribute}
    for attribute in kernel.attributes:
        wanted = attribute.number(bound.attributes[attribute.name])
        as_operand = numpy_dtype(bound.input_dtypes[0]).type(wanted)  # where the pattern has it in a constant
        if seen.get(attribute.name) not in (wanted, float(as_operand)):
            return f"{attribute.name} is {seen.get(attribute.name)} on the node, not {wanted}"
    dtypes = bound.types.of((*kernel.plain_inputs, *kernel.outputs))
    tolerances = [_RUNTIME_TOLERANCE.get(dtype) for dtype in dtypes]
    if None in tolerances:
        return None  # ONNX Runtime has no CPU kernels for the type (bfloat16)
    return _difference(bound, fused.model, max(t for t in tolerances if t is not None))


def _difference(bound: Bound, model: onnx.ModelProto, tolerance: float) -> str | None:
    onnxruntime = onnx_runtime()

    plain = plain_inputs(bound, np.random.default_rng(SEED))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it refuses is told here
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # it would round biases to integers
    feeds = {t.name: a for t, a in zip(bound.kernel.plain_inputs, plain, strict=True) if not t.weight}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, feeds)
    except Exception as refused:  # its own kind for each reason
        raise LenetTrtError(
            f"ONNX Runtime does not run the pattern's nodes ({' '.join(str(refused).split())}): leave such sizes and "
            "attributes out of the declaration, as with requires"
        ) from refused
    for tensor, seen, wanted in zip(bound.kernel.outputs, results, expected_outputs(bound, plain), strict=True):
        if np.shape(seen) != wanted.shape:
            return f"{tensor.name} has shape {list(np.shape(seen))}, and {list(wanted.shape)} by the reference"
        error = relative_error(np.asarray(seen), wanted)
        if math.isinf(error):
            return f"{tensor.name} differs from the reference in NaN or infinity, or from zeros"
        if error > tolerance:
            return f"{tensor.name} differs from the reference by {error:.2g} of its norm"
    return None
