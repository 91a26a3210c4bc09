"""Quantization in an ONNX model: what it has, what TensorRT takes of it, and the same in float8.

A quantized model here has explicit QuantizeLinear and DequantizeLinear nodes (Q/DQ) around layers of floating point.
TensorRT joins them into layers of 8 bits. It takes symmetric quantization alone: every zero point is 0.
Source: NVIDIA's TensorRT documentation, "Working with Quantized Types"; the ONNX operator specification.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.precision import constants

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
QUANTIZERS = (QUANTIZE, DEQUANTIZE)
# TensorRT moves quantization across these, since they compute the same before it and after it.
MOVED_ACROSS = frozenset(
    {"Cast", "Flatten", "Identity", "MaxPool", "Relu", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
LARGEST = {"int8": 127.0, "fp8": 448.0}  # the largest magnitude, which a symmetric scale maps the largest value to
PER_CHANNEL_OPSET = 13
FLOAT8_OPSET = 19  # also the first with float16 scales

# The types that TensorRT has quantized layers for; of the last two only weights.
_TAKEN = (TensorProto.INT8, TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.FLOAT4E2M1)
# Operators of quantized numbers in the place of Q/DQ around floating-point ones, and those that quantize as they run.
_QOPERATORS = frozenset({"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
_ORT_DOMAIN = "com.microsoft"


def quantized_nodes(model: ModelProto) -> list[str]:
    """Return the operators of the model that quantize, or compute with quantized numbers, each once."""
    return list(dict.fromkeys(node.op_type for node in model.graph.node if _quantizes(node)))


def write_zero_points(model: ModelProto, types: Mapping[str, int] | None = None) -> None:
    """Give each DequantizeLinear without a zero point one of zeros, in place; ONNX leaves it to the writer.

    ``types``: the element types of values, where shape inference does not find them all.
    """
    known, scales = types or _types(model), {name: tuple(tensor.dims) for name, tensor in constants(model.graph)}
    made: dict[tuple[int, tuple[int, ...]], str] = {}
    for node in model.graph.node:
        if node.op_type != DEQUANTIZE or len(node.input) > 2 or node.input[0] not in known:
            continue
        kind = known[node.input[0]], scales.get(node.input[1], ())
        if kind not in made:
            made[kind] = f"{node.output[0]}.zero_point"
            zeros = np.zeros(kind[1], helper.tensor_dtype_to_np_dtype(kind[0]))
            model.graph.initializer.append(numpy_helper.from_array(zeros, made[kind]))
        node.input.append(made[kind])


def with_quantized_input(model: ModelProto) -> ModelProto:
    """Return a copy that takes quantized numbers: the one QuantizeLinear that reads an input is left to the caller.

    Raises:
        LenetTrtError: not exactly one input goes to a QuantizeLinear alone.
    """
    model = copy.deepcopy(model)
    inputs = {value.name: value for value in model.graph.input}
    readers = {name: [node for node in model.graph.node if name in node.input] for name in inputs}
    found = {name: nodes[0] for name, nodes in readers.items() if [n.op_type for n in nodes] == [QUANTIZE]}
    if len(found) != 1:
        raise LenetTrtError(
            f"{len(found)} of the inputs {', '.join(inputs)} go to a QuantizeLinear alone; wanted one: quantize the "
            "model by lenet-trt quantize"
        )
    ((name, node),) = found.items()
    inputs[name].type.tensor_type.elem_type = _types(model)[node.output[0]]
    for other in model.graph.node:
        other.input[:] = [name if given == node.output[0] else given for given in other.input]
    model.graph.node.remove(node)
    return model


def check_quantization(model: ModelProto) -> None:
    """Refuse quantization that TensorRT would refuse, or that it would compute otherwise than the model says.

    Raises:
        LenetTrtError: an operator of the QOperator format, a zero point that is not 0 or not known, a type that
            TensorRT has no quantized layers for, or a scale that is not positive; names the node and the fix.
    """
    nodes = [node for node in model.graph.node if _quantizes(node)]
    for node in nodes:
        if node.op_type not in QUANTIZERS:
            raise LenetTrtError(
                f"{_title(node)} is an operator of the QOperator format, which TensorRT does not read; wanted "
                "QuantizeLinear and DequantizeLinear around floating-point layers: quantize the float model by "
                "lenet-trt quantize, or by ONNX Runtime with QuantFormat.QDQ"
            )
    known, types = dict(constants(model.graph)), _types(model) if nodes else {}
    for node in nodes:
        _check_scale(node, known)
        _check_zero_point(node, known)
        _check_type(node, types)


def in_float8(model: ModelProto) -> ModelProto:
    """Return a model of int8 Q/DQ with float8 (e4m3) in the place of int8: the same largest values, other steps.

    Raises:
        LenetTrtError: the model cannot be brought to the operator set that float8 needs.
    """
    result = at_opset(model, FLOAT8_OPSET)
    tensors = {tensor.name: tensor for tensor in result.graph.initializer}
    nodes = [node for node in result.graph.node if node.op_type in QUANTIZERS]
    ratio = np.float32(LARGEST["int8"] / LARGEST["fp8"])
    for name in {node.input[1] for node in nodes}:
        scale = numpy_helper.to_array(tensors[name])
        tensors[name].CopyFrom(numpy_helper.from_array(np.asarray(scale * ratio, scale.dtype), name))
    for name in {node.input[2] for node in nodes}:
        zeros = np.zeros(tuple(tensors[name].dims), numpy_dtype("float8_e4m3fn"))
        tensors[name].CopyFrom(
            helper.make_tensor(name, TensorProto.FLOAT8E4M3FN, zeros.shape, zeros.tobytes(), raw=True)
        )
    del result.graph.value_info[:]
    onnx.checker.check_model(result, full_check=True)
    return result


def at_opset(model: ModelProto, least: int) -> ModelProto:
    """Return a copy of the model in ONNX's operator set ``least``, or in its own where that is newer.

    Raises:
        LenetTrtError: an operator has no form in that operator set.
    """
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    if version >= least:
        return copy.deepcopy(model)
    try:
        return onnx.version_converter.convert_version(model, least)
    except (RuntimeError, ValueError) as error:
        raise LenetTrtError(
            f"the model is of operator set {version}, and cannot be brought to {least}, which this needs: "
            f"{' '.join(str(error).split())[:200]}: export it again with opset {least} or newer"
        ) from error


def _quantizes(node: NodeProto) -> bool:
    if node.domain == _ORT_DOMAIN:
        return node.op_type.startswith("Q") or node.op_type in ("DynamicQuantizeMatMul", DEQUANTIZE)
    return node.domain in ("", "ai.onnx") and node.op_type in (*QUANTIZERS, *_QOPERATORS)


def _check_scale(node: NodeProto, known: Mapping[str, TensorProto]) -> None:
    if node.input[1] not in known:
        raise LenetTrtError(f"{_title(node)}: its scale {node.input[1]} is computed; TensorRT wants a constant")
    scale = numpy_helper.to_array(known[node.input[1]]).astype(np.float64)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise LenetTrtError(
            f"{_title(node)}: its scale {node.input[1]} has the value {np.min(scale):g}; TensorRT wants scales above "
            "0: quantize the float model again, with data that uses this tensor"
        )


def _check_zero_point(node: NodeProto, known: Mapping[str, TensorProto]) -> None:
    name = node.input[2] if len(node.input) > 2 else ""
    if not name:
        return
    if name not in known:
        raise LenetTrtError(f"{_title(node)}: its zero point {name} is computed; TensorRT wants the constant 0")
    values = numpy_helper.to_array(known[name]).astype(np.float64)
    if values.any():
        seen = values.ravel()[np.flatnonzero(values)[0]]
        raise LenetTrtError(
            f"{_title(node)}: its zero point {name} is {seen:g}; TensorRT takes symmetric quantization alone, with "
            "zero points of 0: quantize the float model again, by lenet-trt quantize, or by ONNX Runtime with "
            "ActivationSymmetric and WeightSymmetric"
        )


def _check_type(node: NodeProto, types: Mapping[str, int]) -> None:
    """Refuse quantized numbers of other types; a QuantizeLinear that says no type gives uint8."""
    name = node.output[0] if node.op_type == QUANTIZE else node.input[0]
    kind = types.get(name, TensorProto.UNDEFINED)
    if kind in _TAKEN or kind == TensorProto.UNDEFINED:
        return
    seen = TensorProto.DataType.Name(kind)
    fix = "leave biases in float (QuantizeBias False)" if kind == TensorProto.INT32 else "take QuantType.QInt8"
    raise LenetTrtError(
        f"{_title(node)}: {name} is {seen}; wanted INT8 or FLOAT8E4M3FN, which TensorRT has layers for: quantize the "
        f"float model again, by lenet-trt quantize, or by ONNX Runtime: {fix}"
    )


def _types(model: ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    return types


def _title(node: NodeProto) -> str:
    return f"{node.op_type} node {node.name or node.output[0]!r}"
