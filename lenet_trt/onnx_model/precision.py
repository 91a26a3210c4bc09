"""Put a precision into an ONNX model, since strongly typed TensorRT networks take theirs from it.

Where the casts go and which operators stay in float32 is ONNX Runtime's converter's decision
(``onnxruntime.transformers.float16``); bfloat16 is the same graph with the other 16-bit type. Inputs and outputs
keep their types.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.onnx_model.inferred import with_inferred_types
from lenet_trt.onnx_model.large import check_model
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
from lenet_trt.onnx_model.plugin_nodes import holds_kernel, plugin_nodes

_BF16_OPSET = 22  # the first in which Conv, MaxPool and friends take bfloat16

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
# Without uint8: pixels are of that type, and nothing computes in it.
_KINDS = {e.onnx_number: e.arithmetic for e in ELEMENT_TYPES.values() if e.arithmetic and e.name != "uint8"}


def kinds_of(model: ModelProto) -> frozenset[str]:
    """Return the arithmetic types of the model's tensors: "fp32", "fp16", "bf16", "int8", "fp8", "fp64".

    Names that no tensor's declaration or constant carries (before shape inference) are not seen.
    """
    graph = model.graph
    found = {tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        found.add(value.type.tensor_type.elem_type)
    for node in graph.node:
        if holds_kernel(node):
            continue  # its tensor is no number
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                found.add(attribute.t.data_type)
            elif attribute.name == "to":  # Cast
                found.add(attribute.i)
    return frozenset(_KINDS[kind] for kind in found if kind in _KINDS)


def convert(model: ModelProto, precision: str) -> ModelProto:
    """Return the model with its float32 arithmetic in ``precision`` ("fp32" returns it as it is).

    Raises:
        LenetTrtError: the converter, or the operators at hand, do not take this model.
    """
    if precision == "fp32":
        return model
    onnx_runtime()
    from onnxruntime.transformers.float16 import convert_float_to_float16

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of each weight that fp16 rounds to zero; accuracy is measured
            half = convert_float_to_float16(with_inferred_types(model), keep_io_types=True, disable_shape_infer=True)
        converted = _sorted(half)
        if precision == "bf16":
            converted = _bfloat16(converted, model)
        check_model(converted, full_check=True)
    except (ValueError, RuntimeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise LenetTrtError(
            f"this model cannot be converted to {precision}: {error}: convert it yourself "
            "(NVIDIA ModelOpt's autocast, for one) and build from the result"
        ) from error
    return converted


def refuse_plugin_nodes(model: ModelProto, precision: str) -> None:
    """Refuse a model that cannot be converted, since its plugin nodes have their types.

    Raises:
        UsageError: the model has plugin nodes.
    """
    if nodes := plugin_nodes(model):
        raise UsageError(
            f"--{precision}: the model has plugin nodes already ({', '.join(nodes)}), which have their types: "
            "give the model from before the fusion, and fuse it after the conversion"
        )


def half_inputs_and_outputs(model: ModelProto) -> ModelProto:
    """Return the model in fp16, its inputs and outputs too, without the casts that ``convert`` leaves at the border."""
    result = convert(model, "fp16")
    graph = result.graph
    border = {value.name for value in (*graph.input, *graph.output)}
    renamed: dict[str, str] = {}
    for node in [node for node in graph.node if node.op_type == "Cast"]:
        (inner,) = {node.input[0], node.output[0]} - border or {""}
        if inner:
            renamed[inner] = node.output[0] if inner == node.input[0] else node.input[0]
            graph.node.remove(node)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    del graph.value_info[:]
    onnx.checker.check_model(result, full_check=True)
    return result


def emulated(model: ModelProto) -> ModelProto:
    """Rewrite a model so that its 16-bit arithmetic is emulated in float32 on any CPU.

    Each operator computes in float32 on rounded operands and its 16-bit outputs are rounded again, which is what
    tensor cores do: products and sums in float32, results stored in 16 bits. ONNX Runtime's own CPU kernels have no
    bfloat16, and for float16 it drops roundings between operators. Run the result with graph optimisation off, so that
    no pair of casts is removed. Inputs and outputs of 16 bits become float32, those of branches and loops too.

    Raises:
        LenetTrtError: the types of some tensors cannot be inferred, as with an operator that ONNX does not know.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        raise LenetTrtError(f"the types of this model's tensors cannot be inferred: {error}") from error
    result = copy.deepcopy(model)
    _emulate(result.graph, inferred.graph)
    return result


def _emulate(graph: GraphProto, inferred: GraphProto) -> None:
    """Rewrite a graph and those in its nodes; ``inferred`` is the same graph with the types of its tensors."""
    declared = (*inferred.value_info, *inferred.output)
    kinds = {value.name: value.type.tensor_type.elem_type for value in declared}
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for _, tensor in _tensors(graph):
        if tensor.data_type in NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    nodes = list(graph.node)
    del graph.node[:]
    for node, typed in zip(nodes, inferred.node, strict=True):
        for own, of_typed in zip(_subgraphs(node), _subgraphs(typed), strict=True):
            _emulate(own, of_typed)
        if node.op_type == "Cast" and _attribute(node, "to").i in NARROW:
            _attribute(node, "to").i = TensorProto.FLOAT
        outputs = list(node.output)
        node.output[:] = [f"{name}__exact" if kinds.get(name) in NARROW else name for name in outputs]
        graph.node.append(node)
        for exact, name in zip(node.output, outputs, strict=True):
            if exact != name:
                graph.node.extend(_rounded(exact, name, kinds[name]))


def _subgraphs(node: NodeProto) -> list[GraphProto]:
    """Return the branches of an If, the body of a Loop, and the like."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def has_fp32_gemm(model: ModelProto) -> bool:
    """Return whether a matrix product outside plugins computes in float32."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {tensor.name: tensor.data_type for tensor in inferred.graph.initializer}
    for value in (*inferred.graph.input, *inferred.graph.value_info):
        types[value.name] = value.type.tensor_type.elem_type
    return any(
        node.op_type in ("Gemm", "MatMul") and types.get(node.input[0], TensorProto.FLOAT) == TensorProto.FLOAT
        for node in inferred.graph.node
    )


def _sorted(model: ModelProto) -> ModelProto:
    """Put the nodes in topological order, which the converter does not."""
    import onnx_ir  # with sympy; only a conversion needs it

    intermediate = onnx_ir.from_proto(model)
    intermediate.graph.sort()
    return onnx_ir.to_proto(intermediate)


def _bfloat16(half: ModelProto, original: ModelProto) -> ModelProto:
    """Replace float16 by bfloat16, with constants rounded from the float32 originals, not from their fp16 values."""
    version = next((entry.version for entry in half.opset_import if entry.domain == ""), 0)
    model = onnx.version_converter.convert_version(half, _BF16_OPSET) if version < _BF16_OPSET else half
    exact = dict(_tensors(original.graph))
    for name, tensor in _tensors(model.graph):
        if tensor.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(exact.get(name, tensor)).astype(ml_dtypes.bfloat16)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in model.graph.value_info:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    for node in model.graph.node:
        if node.op_type == "Cast" and _attribute(node, "to").i == TensorProto.FLOAT16:
            _attribute(node, "to").i = TensorProto.BFLOAT16
    return model


def constants(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield every constant tensor with the name that nodes read it by: initializers and Constant nodes."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            yield node.output[0], node.attribute[0].t


def _tensors(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield the constants, and with what ``ConstantOfShape`` nodes fill their outputs."""
    yield from constants(graph)
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.attribute:
            yield node.output[0], node.attribute[0].t


def _attribute(node: NodeProto, name: str) -> AttributeProto:
    found: AttributeProto = next(attribute for attribute in node.attribute if attribute.name == name)
    return found


def _rounded(source: str, target: str, kind: int) -> list[NodeProto]:
    """Return nodes that round a float32 tensor to a 16-bit type and widen it again."""
    rounded = f"{target}__rounded"
    return [
        onnx.helper.make_node("Cast", [source], [rounded], to=kind),
        onnx.helper.make_node("Cast", [rounded], [target], to=TensorProto.FLOAT),
    ]
