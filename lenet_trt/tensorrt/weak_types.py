"""Constrain layers to the types of a model, for a TensorRT whose networks do not take their types from it.

TensorRT before 10 computes in float32 unless it is allowed to use less, and then takes what is fastest. Here every
layer is told the type that its ONNX node has, and TensorRT has to obey. Models with Q/DQ nodes are left to TensorRT,
whose rules for them place the precisions. A plugin's constants do not count: a kernel of floats may have weights in
fp16, which TensorRT gets as words (library/encode.py).
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import ModelProto, TensorProto

from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import constants

# Their types are given: by weights, by the type that is cast to, by what a plugin supports, or by being sizes.
_GIVEN = (
    "ASSERTION",
    "CAST",
    "CONDITION",
    "CONSTANT",
    "DEQUANTIZE",
    "IDENTITY",
    "ITERATOR",
    "PLUGIN",
    "PLUGIN_V2",
    "QUANTIZE",
    "SHAPE",
    "TRIP_LIMIT",
)
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear")


def constrain(trt: Any, network: Any, config: Any, model: ModelProto, *, half_allowed: bool = False) -> None:
    """Allow the types that ``model`` computes in, and have each layer of ``network`` use its own.

    ``network`` is what TensorRT's parser made of the model, or of one with the same names. ``half_allowed``: where a
    model has no float16 itself, TensorRT may compute in it, where that is faster.
    """
    kinds = value_types(model)
    if any(node.op_type in _QUANTIZED for node in model.graph.node):
        config.set_flag(trt.BuilderFlag.INT8)
        if half_allowed or TensorProto.FLOAT16 in kinds.values():
            config.set_flag(trt.BuilderFlag.FP16)
        return
    _allow_integers(trt, network, config)
    if TensorProto.FLOAT16 not in kinds.values():
        if half_allowed:
            config.set_flag(trt.BuilderFlag.FP16)
        return
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    data_types: dict[int, Any] = {TensorProto.FLOAT: trt.DataType.FLOAT, TensorProto.FLOAT16: trt.DataType.HALF}
    known = {name: data_types[kind] for name, kind in kinds.items() if kind in data_types}
    given = {getattr(trt.LayerType, name) for name in _GIVEN if hasattr(trt.LayerType, name)}
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        outputs = [layer.get_output(i) for i in range(layer.num_outputs)]
        if layer.type in given:
            for tensor in outputs:
                if tensor.dtype in data_types.values():
                    known.setdefault(tensor.name, tensor.dtype)
            continue
        _constrain_layer(layer, outputs, known, frozenset(data_types.values()))


def _allow_integers(trt: Any, network: Any, config: Any) -> None:
    """Allow int8 where plugins read or write it, and say that its numbers are those that are stored.

    Without Q/DQ nodes TensorRT 8 wants the range of what a tensor of int8 stands for; 127 makes its scale 1.
    """
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    tensors += [layer.get_output(i) for layer in layers for i in range(layer.num_outputs)]
    for tensor in tensors:
        if tensor.dtype == trt.DataType.INT8:
            config.set_flag(trt.BuilderFlag.INT8)
            tensor.set_dynamic_range(-127.0, 127.0)


def value_types(model: ModelProto) -> dict[str, int]:
    """Return the element type of every tensor of the model whose type can be inferred, but of constants of plugins."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    kinds = {constant.name: constant.data_type for constant in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kinds[value.name] = value.type.tensor_type.elem_type
    for name in _constants_of_plugins(model):
        kinds.pop(name, None)
    return kinds


def _constants_of_plugins(model: ModelProto) -> set[str]:
    """Return the constants that plugins alone read, however the model holds them."""
    plugins = plugin_nodes(model)
    read: dict[bool, set[str]] = {True: set(), False: set()}
    for node in model.graph.node:
        read[(node.name or node.output[0]) in plugins].update(node.input)
    return {name for name, _ in constants(model.graph)} & read[True] - read[False]


def _constrain_layer(layer: Any, outputs: list[Any], known: dict[str, Any], floats: frozenset[Any]) -> None:
    """Set the layer's types, where they are floating-point; what they are is added to ``known`` under its outputs."""
    if any(tensor.is_shape_tensor for tensor in outputs):
        return
    inputs = [layer.get_input(i) for i in range(layer.num_inputs)]
    # The parser makes several layers of some nodes; those inside have names of their own, and their inputs' type.
    inherited = next((known[tensor.name] for tensor in inputs if tensor is not None and tensor.name in known), None)
    computed = inherited
    for i, tensor in enumerate(outputs):
        if tensor.dtype not in floats:
            continue  # indices, truth values
        kind = known.get(tensor.name, inherited)
        if kind is not None:
            layer.set_output_type(i, kind)
            known[tensor.name] = computed = kind
    if computed is not None:
        layer.precision = computed
