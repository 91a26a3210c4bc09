"""Make an ONNX model of a kernel's pattern: what fuse replaces, alone in a file."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.onnx_function import NodeBuilder
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.dims import AxisValue
from lenet_trt.kernel.examples import SEED, plain_inputs
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.pattern import Pattern
from lenet_trt.kernel.types import numpy_dtype

NEWEST_OPSET = 22  # the first in which Conv and MaxPool take bfloat16
_IR_VERSION = 10
# Numbers of a pattern are found in a network within this relative distance (onnxscript's rewriter).
_MATCHED = 1e-5


class NoModelError(LenetTrtError):
    """Say why a pattern is no ONNX model for the types of a call."""


@dataclass(frozen=True)
class _Given:
    """Hold the value of an attribute that a pattern captures: of a node's attribute, or of a constant."""

    value: AttributeValue


class _Builder(NodeBuilder):
    """Make nodes, with the values of captured attributes put in, and constants of the numbers that are operands."""

    def __init__(self, opset: int, dtype: np.dtype[Any]) -> None:
        super().__init__("value_", opset)
        self._dtype = dtype
        self.exact = True  # whether the type has every number of the pattern, as far as matching looks

    def __getattr__(self, op_type: str) -> Any:
        add = super().__getattr__(op_type)

        def node(*inputs: Any, **attributes: Any) -> Any:
            self.exact &= all(self._has(e) for e in inputs if isinstance(e, float))
            values = [self._operand(_plain(e)) if isinstance(e, (_Given, float, list, tuple)) else e for e in inputs]
            return add(*values, **{name: _plain(value) for name, value in attributes.items()})

        return node

    def _has(self, number: float) -> bool:
        return math.isclose(float(np.array(number, self._dtype)), number, rel_tol=_MATCHED)

    def _operand(self, number: Any) -> str:
        """Add a constant: integers as a vector of int64, as operators take sizes, a float in the kernel's type T."""
        if isinstance(number, float):
            return self.constant(np.array(number, self._dtype))
        return self.constant(np.array(number, np.int64).reshape(-1))


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.value if isinstance(value, _Given) else value


def pattern_model(bound: Bound, pattern: Pattern, opset: int = NEWEST_OPSET) -> onnx.ModelProto:
    """Make the ONNX model that a pattern describes, with a call's sizes and random weights; the batch is symbolic.

    Raises:
        NoModelError: the pattern is not valid ONNX for these types, or has a number that they have not: the root of 2
            in 16 bits is another number, which the pattern does not describe.
        LenetTrtError: the pattern raises, or gives no values.
    """
    kernel = bound.kernel
    plain = plain_inputs(bound, np.random.default_rng(SEED))
    computed_in = bound.types.variables.get("T")
    dtype = plain[0].dtype if computed_in is None else numpy_dtype(computed_in)
    op = _Builder(opset, dtype)
    names = list(inspect.signature(pattern.onnx_graph).parameters)[1:]
    parameters = [_Given(bound.attributes[name]) if name in bound.attributes else name for name in names]
    result = call_declared(kernel.name, "the pattern", pattern.onnx_graph, op, *parameters)
    if not op.exact:
        raise NoModelError(f"it has a number that {dtype} has not")
    results = list(result) if isinstance(result, tuple) else [result]
    if not all(isinstance(name, str) for name in results):
        raise LenetTrtError(f"{kernel.name}: the pattern gives {result!r}; wanted what op.<OnnxOperator>(...) gives")
    batch = next((axis.name for axis in kernel.axes if not axis.static), None)
    inputs, weights = [], []
    for tensor, array in zip(kernel.plain_inputs, plain, strict=True):
        if tensor.weight:
            weights.append(numpy_helper.from_array(array, tensor.name))
            continue
        shape = [
            size.name if isinstance(size, AxisValue) and size.name == batch else int(number)
            for size, number in zip(tensor.shape, array.shape, strict=True)
        ]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(tensor.name, kind, shape))
    # The types of the outputs are inferred: a kernel may give int32 where ONNX has int64.
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(op.nodes, "pattern", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        unknown = [node.op_type for node in op.nodes if not onnx.defs.has(node.op_type, opset, "")]
        why = f"opset {opset} has no operator {', '.join(unknown)}" if unknown else " ".join(str(error).split())
        raise NoModelError(why) from error
    return model
