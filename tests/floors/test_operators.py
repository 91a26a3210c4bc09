"""What single operators of ONNX read and compute, against counts by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from onnx import TensorProto

from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.operators import OperatorCall, arithmetic_of, is_view, operations, reads, shapes_text
from lenet_trt.onnx_model.shapes import KnownTensor


def floats(*shape: int) -> KnownTensor:
    return KnownTensor(shape, TensorProto.FLOAT)


def ints(*shape: int) -> KnownTensor:
    return KnownTensor(shape, TensorProto.INT64)


def call(op: str, inputs: Sequence[KnownTensor | None], *outputs: KnownTensor | None, **attributes: Any) -> Any:
    return OperatorCall(op, list(inputs), list(outputs), attributes)


X = floats(4, 6)


@pytest.mark.parametrize(
    ("made", "bytes_read"),
    [
        (call("Relu", [X], X), [96]),
        (call("Add", [X, floats(6)], X), [96, 24]),
        # Shapes, axes and bounds stay with the host.
        *[
            (call(op, [X, ints(2)], X), [96, 0])
            for op in ("Reshape", "Squeeze", "Unsqueeze", "Expand", "Tile", "Trilu")
        ],
        (call("TopK", [X, ints(1)], floats(4, 2), ints(4, 2)), [96, 0]),
        (call("Split", [X, ints(2)], floats(2, 6), floats(2, 6)), [96, 0]),
        (call("Pad", [X, ints(4), floats(), ints(2)], floats(6, 8)), [96, 0, 0, 0]),
        (call("Resize", [X, None, floats(2), ints(2)], floats(8, 12)), [96, 0, 0, 0]),
        *[
            (call(f"Reduce{kind}", [X, ints(1)], floats(4)), [96, 0])
            for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")
        ],
        (call("Clip", [X, floats(), floats()], X), [96, 0, 0]),
        (call("Dropout", [X, floats(), KnownTensor((), TensorProto.BOOL)], X), [96, 0, 0]),
        (call("CumSum", [X, ints()], X), [96, 0]),
        (call("OneHot", [ints(4), ints(), floats(2)], floats(4, 6)), [32, 0, 8]),
        (call("Upsample", [X, floats(2)], floats(8, 12)), [96, 0]),
        (call("Range", [ints(), ints(), ints()], ints(5)), [0, 0, 0]),
        (call("ConstantOfShape", [ints(2)], X), [0]),
        *[
            (call(op, [X], ints(2)), [0])
            for op in ("Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike")
        ],
        # What is selected is read, and not what it is selected from; a selection may also be larger than its source.
        (call("Slice", [X, ints(1), ints(1), ints(1), ints(1)], floats(1, 6)), [24, 0, 0, 0, 0]),
        *[
            (call(op, [X, ints(1)], floats(1, 6)), [24, 8])
            for op in ("Gather", "GatherElements", "GatherND", "Compress")
        ],
        (call("Gather", [X, ints(10)], floats(10, 6)), [96, 80]),
        (call("Concat", [X, None, X], floats(8, 6)), [96, 0, 96]),
    ],
    ids=lambda value: value.op if isinstance(value, OperatorCall) else "",
)
def test_what_is_read_of_each_input(made: OperatorCall, bytes_read: list[int]) -> None:
    assert reads(made) == bytes_read


IMAGES, WINDOW = floats(2, 3, 8, 8), floats(2, 3, 4, 4)
LAYERS = (floats(5, 2, 7), floats(1, 12, 7), floats(1, 12, 3))  # 5 steps of 2 sequences


@pytest.mark.parametrize(
    ("made", "flops", "estimated"),
    [
        *[(call(op, [X, X], X), 24, False) for op in ("Add", "Sub", "Mul", "Div")],
        *[(call(op, [X], X), 24, False) for op in ("LeakyRelu", "PRelu")],
        (call("BatchNormalization", [X, *[floats(6)] * 4], X), 48, False),
        *[(call(f"Reduce{kind}", [X], floats(4)), 24, False) for kind in ("Sum", "Mean", "Prod", "L1")],
        *[(call(f"Reduce{kind}", [X], floats(4)), 48, False) for kind in ("L2", "SumSquare")],
        *[
            (call(op, [X], X), 0, False)
            for op in (
                "Relu",
                "Abs",
                "Neg",
                "Ceil",
                "Floor",
                "Sign",
                "Round",
                "Not",
                "Transpose",
                "ReduceMax",
                "ReduceMin",
            )
        ],
        *[(call(op, [X, X], X), 0, False) for op in ("Max", "Min", "And", "Or", "Xor", "Equal", "Less", "Greater")],
        (call("Where", [X, X, X], X), 0, False),
        (call("MaxPool", [IMAGES], WINDOW, kernel_shape=[2, 2]), 0, False),
        (call("GlobalMaxPool", [IMAGES], floats(2, 3, 1, 1)), 0, False),
        (call("Reshape", [X, ints(1)], floats(24)), 0, False),
        (call("AveragePool", [IMAGES], WINDOW, kernel_shape=[2, 3]), 96 * 6, False),
        (call("GlobalAveragePool", [IMAGES], floats(2, 3, 1, 1)), 384, False),
        (call("CumSum", [X, ints()], X), 24, False),
        (call("Sum", [X, X, X], X), 48, False),
        (call("Mean", [X, X], X), 24, False),
        (call("Sum", [X], X), 24, False),
        *[(call(op, [X], X), 4 * 24, True) for op in ("Softmax", "LogSoftmax")],
        *[
            (call(op, [X], X), 8 * 24, True)
            for op in ("LayerNormalization", "InstanceNormalization", "GroupNormalization", "SkipLayerNormalization")
        ],
        *[
            (call(op, [X], X), 5 * 24, True)
            for op in ("RMSNormalization", "LpNormalization", "MeanVarianceNormalization")
        ],
        *[
            (call(op, [X], X), 2 * 24, True)
            for op in ("Swish", "Mish", "Gelu", "HardSwish", "Celu", "Selu", "Elu", "QuantizeLinear", "HardSigmoid")
        ],
        *[(call(op, [X], X), 24, True) for op in ("Tanh", "Exp", "Erf", "Sqrt", "Anything")],
        (call("Anything", [X], X, None, floats(6)), 30, True),
        # Products
        (
            call("Attention", [floats(2, 4, 6, 8), floats(2, 4, 5, 8), floats(2, 4, 5, 3)], floats(2, 4, 6, 3)),
            5280,
            False,
        ),
        (call("Attention", [floats(2, 6, 32), floats(2, 5, 32), floats(2, 5, 12)], floats(2, 6, 12)), 5280, False),
        (
            call(
                "Attention",
                [floats(1, 1, 4, 2), floats(1, 1, 4, 2), floats(1, 1, 4, 2)],
                floats(1, 1, 4, 2),
                is_causal=1,
            ),
            80,
            False,
        ),
        *[
            (call(op, [floats(4, 5), floats(5, 6)], floats(4, 6)), 2 * 24 * 5, False)
            for op in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "FusedGemm")
        ],
        (call("Gemm", [floats(5, 4), floats(5, 6)], floats(4, 6), transA=1), 2 * 24 * 5, False),
        (call("FusedMatMul", [floats(5), floats(5, 6)], floats(6), transA=1), 2 * 6 * 5, False),
        *[
            (call(op, [IMAGES, floats(6, 3, 3, 5)], floats(2, 6, 6, 4)), 2 * 288 * 45, False)
            for op in ("Conv", "ConvInteger", "FusedConv")
        ],
        (
            call("QLinearConv", [IMAGES, floats(), floats(), floats(6, 3, 3, 5)], floats(2, 6, 6, 4)),
            2 * 288 * 45,
            False,
        ),
        (call("ConvTranspose", [IMAGES, floats(3, 6, 2, 4)], floats(2, 6, 16, 16)), 2 * 384 * 48, False),
        *[(call(op, LAYERS, floats(5, 1, 2, 3)), 2 * 5 * 2 * (84 + 36), True) for op in ("LSTM", "GRU", "RNN")],
        (call("Einsum", [floats(2, 3), floats(3, 4)], floats(2, 4), equation="ij,jk->ik"), 2 * 24, False),
        (call("Einsum", [floats(2, 3), floats(3, 4)], floats(2, 4), equation=b" i j , j k "), 2 * 24, False),
        (call("Einsum", [X], floats(6, 4), equation="ij->ji"), 0, False),
        (
            call("Einsum", [floats(9, 1, 2, 3), floats(7, 3, 4)], floats(9, 7, 2, 4), equation="...ij,...jk->...ik"),
            2 * 9 * 7 * 24,
            False,
        ),
        (call("Einsum", [floats(2), floats(2), floats(2)], floats(), equation="i,i,i->"), 2 * 2 * 2, False),
    ],
    ids=lambda value: value.op if isinstance(value, OperatorCall) else "",
)
def test_how_many_operations_the_math_asks_for(made: OperatorCall, flops: int, estimated: bool) -> None:
    found = operations(made)
    assert (found.flops, found.estimated) == (flops, estimated)


@pytest.mark.parametrize(
    ("made", "view"),
    [
        *[(call(op, [X], floats(24)), True) for op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")],
        (call("Dropout", [X], X), True),
        (call("Dropout", [X], X, None), True),
        (call("Dropout", [X], X, KnownTensor((4, 6), TensorProto.BOOL)), False),
        (call("Cast", [X], X), True),
        (call("Cast", [X], ints(4, 6)), False),
        (call("Cast", [ints(4, 6)], X), False),
        (call("Transpose", [floats(1, 4, 6)], floats(4, 1, 6), perm=[1, 0, 2]), True),
        (call("Transpose", [floats(2, 4, 6)], floats(4, 2, 6), perm=[1, 0, 2]), False),
        (call("Transpose", [floats(1, 6)], floats(6, 1)), True),
        (call("Transpose", [X], floats(6, 4)), False),
        (call("Expand", [X, ints(2)], floats(1, 4, 6)), True),
        (call("Expand", [X, ints(3)], floats(2, 4, 6)), False),
        (call("Relu", [X], X), False),
    ],
)
def test_what_is_the_same_bytes_in_their_order(made: OperatorCall, view: bool) -> None:
    assert is_view(made) is view


@pytest.mark.parametrize(
    ("dtype", "product", "other"),
    [
        ("float32", "split", "fp32"),
        ("float16", "fp16", "fp16_fma"),
        ("bfloat16", "bf16", "bf16_fma"),
        ("int8", "int8", "fp32"),
        ("float8_e4m3fn", "fp8", "fp32"),
        ("float64", "fp64", "fp64"),
        ("int64", "fp32", "fp32"),
        ("something", "fp32", "fp32"),
    ],
)
def test_the_arithmetic_of_a_type(dtype: str, product: str, other: str) -> None:
    assert (arithmetic_of(dtype, True), arithmetic_of(dtype, False)) == (product, other)


def test_the_arithmetic_of_an_operator_is_that_of_its_operands_or_of_its_result() -> None:
    half = KnownTensor((4, 6), TensorProto.FLOAT16)
    assert operations(call("MatMul", [half, half], floats(4, 4))).arithmetic == "fp16"
    assert operations(call("Add", [X, X], half)).arithmetic == "fp16_fma"
    assert operations(call("Relu", [half], half)).arithmetic == "fp16_fma"
    assert operations(call("ReduceSum", [half], half)).arithmetic == "fp16_fma"
    assert operations(call("AveragePool", [half], half, kernel_shape=[2])).arithmetic == "fp16_fma"
    assert operations(call("Tanh", [half], half)).arithmetic == "fp16_fma"


def test_shapes_are_told_without_what_says_how() -> None:
    assert shapes_text(call("Conv", [IMAGES, floats(6, 3, 5, 5), None], floats(2, 6, 4, 4))) == (
        "2x3x8x8, 6x3x5x5 -> 2x6x4x4"
    )
    assert shapes_text(call("Reshape", [X, ints(1)], floats(24))) == "4x6 -> 24"
    assert shapes_text(call("Range", [ints(), ints(), ints()], ints(5))) == "-> 5"
    assert shapes_text(call("Add", [floats(), X], X, None)) == "1, 4x6 -> 4x6"


def test_a_node_that_lacks_a_tensor_is_refused_by_its_name() -> None:
    with pytest.raises(LenetTrtError, match="Conv lacks its input 1"):
        operations(call("Conv", [IMAGES], WINDOW))
    with pytest.raises(LenetTrtError, match="ConvTranspose lacks its input 1"):
        operations(call("ConvTranspose", [IMAGES, None], WINDOW))
    with pytest.raises(LenetTrtError, match="Relu has no output"):
        operations(call("Relu", [X]))
    assert math.prod(call("Split", [X], None, floats(2)).out.shape) == 2
