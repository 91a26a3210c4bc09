"""Count the work of one ONNX operator on tensors of known shapes: the bytes that it reads, and its operations.

Operations are floating-point additions, multiplications and divisions of the math. Comparisons (Relu, Max, MaxPool)
do not count, and neither does a bias with which a sum begins. A function (Exp, Tanh, Erf) counts as one operation per
element; such counts are marked as estimated, and so are operators that are unknown here.
Source: the ONNX operator specification (onnx.ai/onnx/operators).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.floor import Arithmetic
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.onnx_model.shapes import KnownTensor


@dataclass(frozen=True)
class OperatorCall:
    """Hold one node with its tensors; None stands for an input or output that is left out."""

    op: str
    inputs: Sequence[KnownTensor | None]
    outputs: Sequence[KnownTensor | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def given(self, index: int) -> KnownTensor:
        """Return an input that must be present."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise LenetTrtError(f"{self.op} lacks its input {index}")
        return tensor

    @property
    def out(self) -> KnownTensor:
        """Return the first output."""
        tensor = next((output for output in self.outputs if output is not None), None)
        if tensor is None:
            raise LenetTrtError(f"{self.op} has no output")
        return tensor


@dataclass(frozen=True)
class Operations:
    """Hold the number of operations, their arithmetic, and whether the number is an estimate."""

    flops: int
    arithmetic: Arithmetic = "fp32"
    estimated: bool = False


Counter: TypeAlias = Callable[[OperatorCall], int]

# KnownTensor cores take products in these types; a float's product may be split for them (see ``Ceilings.rate``).
_PRODUCT_ARITHMETIC = {"fp32": "split", "fp16": "fp16", "bf16": "bf16", "int8": "int8", "fp8": "fp8"}
_OTHER_ARITHMETIC = {"fp16": "fp16_fma", "bf16": "bf16_fma", "fp64": "fp64"}

# The arithmetics of products that tensor cores can compute.
TENSOR_ARITHMETIC = frozenset(_PRODUCT_ARITHMETIC.values())
# These operators give the same bytes another shape.
VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
# Inputs that are parameters (shapes, axes, bounds): no runtime reads them from the GPU's memory for each inference.
PARAMETERS: Mapping[str, frozenset[int]] = {
    **{op: frozenset({1}) for op in ("Reshape", "Squeeze", "Unsqueeze", "Expand", "Tile", "TopK", "Split", "Trilu")},
    **{op: frozenset({1, 2, 3, 4}) for op in ("Slice", "Resize", "Pad")},
    **{f"Reduce{kind}": frozenset({1}) for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")},
    **{op: frozenset({1, 2}) for op in ("Clip", "Dropout")},
    "ConstantOfShape": frozenset({0}),
    "Range": frozenset({0, 1, 2}),
    "CumSum": frozenset({1}),
    "OneHot": frozenset({1}),
    "Upsample": frozenset({1}),
}
# These operators read no more of their first input than they output.
SELECTING = frozenset({"Slice", "Gather", "GatherElements", "GatherND", "Compress"})
_SHAPE_ONLY = frozenset({"Shape", "Size", "ConstantOfShape", "EyeLike", "RandomNormalLike", "RandomUniformLike"})
_MOVING = """Abs And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip Compress
Concat ConstantOfShape DepthToSpace Equal Expand EyeLike Floor Gather GatherElements GatherND GlobalMaxPool Greater
GreaterOrEqual IsInf IsNaN Less LessOrEqual Max MaxPool MaxUnpool Min Neg NonZero Not OneHot Or Pad Range ReduceMax
ReduceMin Relu ReverseSequence Round ScatterElements ScatterND Shape Sign Size Slice SpaceToDepth Split Tile TopK
Transpose Trilu Unique Upsample Where Xor"""
_NO_OPERATIONS = frozenset(_MOVING.split())
# Operations per element of the output.
_ELEMENTWISE = {"Add": 1, "Sub": 1, "Mul": 1, "Div": 1, "LeakyRelu": 1, "PRelu": 1, "BatchNormalization": 2}
_REDUCTIONS = {"ReduceSum": 1, "ReduceMean": 1, "ReduceProd": 1, "ReduceL1": 1, "ReduceL2": 2, "ReduceSumSquare": 2}
# Operations per element of the output, where a function counts as one operation.
_ESTIMATED = {
    **dict.fromkeys(("Softmax", "LogSoftmax"), 4),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "GroupNormalization", "SkipLayerNormalization"), 8),
    **dict.fromkeys(("RMSNormalization", "LpNormalization", "MeanVarianceNormalization"), 5),
    **dict.fromkeys(("Swish", "Mish", "Gelu", "HardSwish", "Celu", "Selu", "Elu", "QuantizeLinear", "HardSigmoid"), 2),
}


def reads(call: OperatorCall) -> list[int]:
    """Return the bytes that the operator must read of each input."""
    amounts = []
    for index, tensor in enumerate(call.inputs):
        if tensor is None or call.op in _SHAPE_ONLY or index in PARAMETERS.get(call.op, ()):
            amounts.append(0)
        elif index == 0 and call.op in SELECTING:
            amounts.append(min(tensor.bytes, call.out.bytes))
        else:
            amounts.append(tensor.bytes)
    return amounts


def is_view(call: OperatorCall) -> bool:
    """Say whether the output is the input's bytes in their order, so that nothing has to be done."""
    if call.op in VIEWS:
        return call.op != "Dropout" or len([output for output in call.outputs if output]) == 1
    if call.op == "Cast":
        return call.given(0).elem_type == call.out.elem_type
    if call.op == "Transpose":
        shape = call.given(0).shape
        order = call.attributes.get("perm", list(reversed(range(len(shape)))))
        moved = [axis for axis in order if shape[axis] != 1]
        return moved == sorted(moved)
    return call.op == "Expand" and call.given(0).elements == call.out.elements


def operations(call: OperatorCall) -> Operations:
    """Count the operations of the math."""
    if call.op in _PRODUCTS:
        operand = next(tensor for tensor in call.inputs if tensor is not None)
        arithmetic = arithmetic_of(operand.dtype, product=True)
        return Operations(_PRODUCTS[call.op](call), arithmetic, estimated=call.op in _RECURRENT)
    arithmetic = arithmetic_of(call.out.dtype, product=False)
    if call.op in _NO_OPERATIONS or is_view(call):
        return Operations(0, arithmetic)
    if call.op in _ELEMENTWISE:
        return Operations(_ELEMENTWISE[call.op] * call.out.elements, arithmetic)
    if call.op in _REDUCTIONS:
        return Operations(_REDUCTIONS[call.op] * call.given(0).elements, arithmetic)
    if call.op in _COUNTED:
        return Operations(_COUNTED[call.op](call), arithmetic)
    each = _ESTIMATED.get(call.op, 1)
    return Operations(each * sum(output.elements for output in call.outputs if output), arithmetic, estimated=True)


def arithmetic_of(dtype: str, product: bool) -> Arithmetic:
    """Return the arithmetic of an operator on elements of this type; products may use tensor cores."""
    kind = ELEMENT_TYPES[dtype].arithmetic if dtype in ELEMENT_TYPES else ""
    plain = _OTHER_ARITHMETIC.get(kind, "fp32")
    return _PRODUCT_ARITHMETIC.get(kind, plain) if product else plain


def _matmul(call: OperatorCall) -> int:
    left = call.given(0).shape
    deep = left[-2] if call.attributes.get("transA") and len(left) > 1 else left[-1]
    return 2 * call.out.elements * deep


def _convolution(weights: int) -> Counter:
    def count(call: OperatorCall) -> int:
        # A filter is [its share of the channels, *window]: each output needs this many products.
        return 2 * call.out.elements * math.prod(call.given(weights).shape[1:])

    return count


def _transposed_convolution(call: OperatorCall) -> int:
    return 2 * call.given(0).elements * math.prod(call.given(1).shape[1:])


def _einsum(call: OperatorCall) -> int:
    equation = call.attributes["equation"]
    terms = (
        (equation.decode() if isinstance(equation, bytes) else str(equation)).replace(" ", "").split("->")[0].split(",")
    )
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, call.inputs, strict=True):
        assert tensor is not None
        before, dots, after = term.partition("...")
        # What the dots stand for is broadcast, and so counted from the last axis on.
        shared = range(len(tensor.shape) - len(before) - len(after) if dots else 0, 0, -1)
        for axis, size in zip([*before, *(f"...{i}" for i in shared), *after], tensor.shape, strict=True):
            sizes[axis] = max(sizes.get(axis, 1), size)
    return 2 * math.prod(sizes.values()) * max(len(terms) - 1, 0)


def _attention(call: OperatorCall) -> int:
    queries, keys = call.given(0), call.given(1).shape[-2]
    past = call.inputs[4] if len(call.inputs) > 4 else None
    keys += past.shape[-2] if past is not None else 0
    rows = queries.shape[-2]
    pairs = sum(min(row + 1, keys) for row in range(rows)) if call.attributes.get("is_causal") else rows * keys
    return 2 * pairs * (queries.elements + call.out.elements) // max(rows, 1)


def _recurrent(call: OperatorCall) -> int:
    steps, batch = call.given(0).shape[:2]
    return 2 * steps * batch * (call.given(1).elements + call.given(2).elements)


def _average(call: OperatorCall) -> int:
    return call.out.elements * math.prod(call.attributes["kernel_shape"])


def _variadic(call: OperatorCall) -> int:
    return call.out.elements * max(len(call.inputs) - 1, 1)


_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_PRODUCTS: Mapping[str, Counter] = {
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "FusedGemm"), _matmul),
    **{op: _convolution(1) for op in ("Conv", "ConvInteger", "FusedConv")},
    "QLinearConv": _convolution(3),
    "Attention": _attention,
    "ConvTranspose": _transposed_convolution,
    "Einsum": _einsum,
    **dict.fromkeys(_RECURRENT, _recurrent),
}
_COUNTED: Mapping[str, Counter] = {
    "AveragePool": _average,
    "GlobalAveragePool": lambda call: call.given(0).elements,
    "CumSum": lambda call: call.given(0).elements,
    "Sum": _variadic,
    "Mean": _variadic,
}
PRODUCTS = frozenset(_PRODUCTS)


def shapes_text(call: OperatorCall) -> str:
    """Describe the shapes of inputs and outputs: ``8x1x28x28, 6x1x5x5 -> 8x6x24x24``."""

    def one(tensor: KnownTensor | None) -> str:
        return "" if tensor is None else "x".join(map(str, tensor.shape)) or "1"

    hidden = PARAMETERS.get(call.op, frozenset())
    left = ", ".join(filter(None, (one(tensor) for i, tensor in enumerate(call.inputs) if i not in hidden)))
    return re.sub(r"^ ", "", f"{left} -> {', '.join(filter(None, map(one, call.outputs)))}")
