"""Make the largest comparable call of a kernel: its model, its inputs and its outputs."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import onnx

from lenet_trt.bench.engine_tool import Arrays, Outputs
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel

# The newest opset that the parser of TensorRT 8.6 documents, and the version of its file format.
OPSET, IR_VERSION = 17, 8
# trtexec writes outputs as text, so only outputs with at most this many numbers are compared.
_MOST_OUTPUTS = 200_000


def largest_call(kernel: Kernel, types: str) -> tuple[Bound, onnx.ModelProto] | None:
    """Return the largest example that a pattern describes, with its model; None where there is none."""
    from lenet_trt.fuse.pattern_model import NoModelError, pattern_model
    from lenet_trt.kernel.examples import bounds

    fitting = [b for b in bounds(kernel) if b.types.name == types and _numbers(b) <= _MOST_OUTPUTS]
    for bound in sorted(fitting, key=lambda bound: -bound.flops):
        for pattern in kernel.patterns:
            if not pattern.attributes.items() <= bound.attributes.items():
                continue
            with suppress(NoModelError):
                return bound, _fixed(pattern_model(bound, pattern, OPSET), bound)
    return None


def _numbers(bound: Bound) -> int:
    return sum(math.prod(shape) for shape in bound.output_shapes)


def _fixed(model: onnx.ModelProto, bound: Bound) -> onnx.ModelProto:
    """Return the model with the sizes of the call, in the oldest file format that it needs."""
    model.ir_version = IR_VERSION
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_value = bound.axes[dim.dim_param]
    return model


def call_inputs(bound: Bound, _: int) -> Arrays:
    """Draw the call's inputs, the same for every batch; weights are in the model."""
    from lenet_trt.kernel.examples import SEED, plain_inputs

    plain = plain_inputs(bound, np.random.default_rng(SEED))
    return {t.name: a for t, a in zip(bound.kernel.plain_inputs, plain, strict=True) if not t.weight}


def call_outputs(bound: Bound, _: Arrays) -> Outputs:
    """Compute the call's outputs from the inputs that are drawn and the weights."""
    from lenet_trt.kernel.examples import SEED, expected_outputs, plain_inputs

    return expected_outputs(bound, plain_inputs(bound, np.random.default_rng(SEED)))
