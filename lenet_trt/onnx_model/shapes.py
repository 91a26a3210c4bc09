"""Find the shapes of every tensor of a model whose open axes have sizes, and the values known before it runs.

Shapes that the model computes (Shape, Gather, Concat, Reshape) are followed: what depends on constants and shapes alone
is evaluated, and such nodes are constant: no runtime computes them more than once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue, stored_values
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.onnx_model.inferred import inferred
from lenet_trt.onnx_model.profiles import axes_of, axes_text
from lenet_trt.onnx_model.quantization import DEQUANTIZE

# Values of more elements are no shapes; their data is not needed to know what is computed with them.
LARGEST_VALUE = 4096
_ROUNDS = 30
_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
_HALF_BYTE = frozenset({TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1})


@dataclass(frozen=True)
class KnownTensor:
    """Hold a tensor's shape and ONNX's number of its element type."""

    shape: Shape
    elem_type: int

    @property
    def elements(self) -> int:
        """Return the number of its elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Return the size in bytes; types without a fixed size (strings) count 0."""
        if self.elem_type in _HALF_BYTE:
            return (self.elements + 1) // 2
        if self.elem_type == TensorProto.STRING:
            return 0
        return self.elements * int(np.dtype(helper.tensor_dtype_to_np_dtype(self.elem_type)).itemsize)

    @property
    def narrow(self) -> bool:
        """Return whether an element has 8 bits or fewer."""
        return self.elements > 0 and self.bytes <= self.elements

    @property
    def dtype(self) -> str:
        """Return NumPy's name of the element type."""
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(self.elem_type)).name)


@dataclass(frozen=True)
class Known:
    """Hold a model with known tensors: ``tensors`` by name, and ``constants``, which depend on no input.

    ``values`` are small constants' values; ``nodes`` those that are computed for each input, in order.
    ``dequantized``: by the name of what DequantizeLinear gives, the type of 8 bits or fewer that it reads.
    """

    nodes: tuple[NodeProto, ...]
    tensors: Mapping[str, KnownTensor]
    constants: frozenset[str]
    values: Mapping[str, np.ndarray]
    outputs: tuple[str, ...]
    opset: int
    dequantized: Mapping[str, int]


def known(model: ModelProto, sizes: Mapping[str, int], shapes: Mapping[str, Shape] | None = None) -> Known:
    """Find every shape; ``sizes`` are the open axes' by name, ``shapes`` those of whole inputs.

    Raises:
        LenetTrtError: an axis has no size, or the shapes contradict each other.
    """
    whole = _inlined(model)
    light, values, constants = _light(whole)
    _bind(light, sizes, shapes or {})
    for _ in range(_ROUNDS):
        tensors = _inferred(light, values)
        if not _fold(light, tensors, values, constants):
            break
    nodes = tuple(node for node in light.graph.node if not all(name in constants for name in node.output if name))
    opset = next((entry.version for entry in light.opset_import if entry.domain in ("", "ai.onnx")), 1)
    outputs = tuple(value.name for value in light.graph.output)
    dequantized = {
        node.output[0]: tensors[node.input[0]].elem_type
        for node in whole.graph.node
        if node.op_type == DEQUANTIZE and node.input[0] in tensors and tensors[node.input[0]].narrow
    }
    return Known(nodes, tensors, frozenset(constants), values, outputs, opset, dequantized)


def node_name(node: NodeProto) -> str:
    """Return the name of a node, else the name of its first output."""
    return str(node.name or node.output[0])


def bound_plugin(node: NodeProto, inputs: Sequence[KnownTensor]) -> Bound:
    """Return the call that a plugin node makes.

    Raises:
        LenetTrtError: there is no such kernel here, or it is not for these inputs.
    """
    kernel = kernel_named(node.op_type)
    return kernel.bind([t.shape for t in inputs], [t.dtype for t in inputs], chosen_attributes(kernel, node))


def chosen_attributes(kernel: Kernel, node: NodeProto) -> dict[str, AttributeValue]:
    """Return the values for which the numbers of a plugin node stand.

    Raises:
        LenetTrtError: a number stands for no value.
    """
    return stored_values(kernel, {entry.name: helper.get_attribute_value(entry) for entry in node.attribute})


def _inlined(model: ModelProto) -> ModelProto:
    """Put in what functions stand for, except the fallbacks of plugins."""
    others = [function for function in model.functions if function.domain != DOMAIN]
    if not others:
        return model
    from onnx import inliner

    plugins = [(function.domain, function.name) for function in model.functions if function.domain == DOMAIN]
    return inliner.inline_selected_functions(model, plugins, exclude=True)


def _light(model: ModelProto) -> tuple[ModelProto, dict[str, np.ndarray], set[str]]:
    """Return a copy without the data of large weights, the values of small ones, and the names of all."""
    light = ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.value_info.extend(model.graph.value_info)
    light.graph.output.extend(model.graph.output)
    weights = {tensor.name for tensor in model.graph.initializer}
    light.graph.input.extend(value for value in model.graph.input if value.name not in weights)
    values = {}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= LARGEST_VALUE and not tensor.external_data:
            values[tensor.name] = numpy_helper.to_array(tensor)
            light.graph.initializer.append(tensor)
        else:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return light, values, weights


def _bind(model: ModelProto, sizes: Mapping[str, int], shapes: Mapping[str, Shape]) -> None:
    graph = model.graph
    for value in graph.input:
        for axis, size in enumerate(shapes.get(value.name, ())):
            value.type.tensor_type.shape.dim[axis].dim_value = size
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    # An exporter's names of unknown axes ("unk__3") keep ONNX's inference from finding their sizes.
    noted = [value for value in graph.value_info if _of_type(value.type) is not None]
    del graph.value_info[:]
    graph.value_info.extend(noted)
    for value in graph.input:
        if open_axes := [axis for axis in axes_of(value) if isinstance(axis, str)]:
            raise LenetTrtError(
                f"the input {axes_text({value.name: axes_of(value)})} has axes without a size "
                f"({', '.join(open_axes)}), and their work depends on them: give --batch, --sizes or --shapes"
            )


def _inferred(model: ModelProto, values: Mapping[str, np.ndarray]) -> dict[str, KnownTensor]:
    try:
        graph = inferred(model, _types_of_plugin).graph
    except (onnx.shape_inference.InferenceError, DecodeError, ValueError) as error:
        raise LenetTrtError(f"the model's shapes do not fit together: {' '.join(str(error).split())}") from error
    tensors = {tensor.name: KnownTensor(tuple(tensor.dims), tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found = _of_type(value.type)
        if found is not None:
            tensors[value.name] = found
    for name, array in values.items():
        tensors.setdefault(name, KnownTensor(array.shape, helper.np_dtype_to_tensor_dtype(array.dtype)))
    return tensors


def _of_type(kind: TypeProto) -> KnownTensor | None:
    tensor = kind.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return KnownTensor(tuple(dim.dim_value for dim in tensor.shape.dim), tensor.elem_type)


def _fold(
    model: ModelProto, tensors: Mapping[str, KnownTensor], values: dict[str, np.ndarray], constants: set[str]
) -> bool:
    """Find more constants, and evaluate the small ones; whether any value is new."""
    new = False
    for node in model.graph.node:
        if all(name in values for name in node.output if name):
            continue
        found = _evaluated(model, node, tensors, values)
        depends = any(name and name not in constants for name in node.input)
        if found is not None or (not depends and node.op_type not in _RANDOM and not _has_graph(node)):
            constants.update(name for name in node.output if name)
        for name, array in (found or {}).items():
            values[name] = array
            model.graph.initializer.append(numpy_helper.from_array(array, name))
            new = True
    if new:  # an initializer and a node may not give one name
        kept = [node for node in model.graph.node if not all(name in values for name in node.output if name)]
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return new


def _evaluated(
    model: ModelProto, node: NodeProto, tensors: Mapping[str, KnownTensor], values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """Return the values of a node's outputs, where they can be known and are small."""
    if node.domain not in ("", "ai.onnx") or node.op_type in _RANDOM or _has_graph(node):
        return None
    inputs = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size") and inputs[0] in tensors:
        shape = tensors[inputs[0]].shape
        if node.op_type == "Size":
            return {node.output[0]: np.array(math.prod(shape), np.int64)}
        span = {entry.name: entry.i for entry in node.attribute}
        return {node.output[0]: np.array(shape[span.get("start", 0) : span.get("end", len(shape))], np.int64)}
    sizes = [tensors[name].elements for name in node.output if name in tensors]
    if not all(name in values for name in inputs) or any(size > LARGEST_VALUE for size in sizes):
        return None
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype), None)
            for name in inputs
        ],
        [ValueInfoProto(name=name) for name in node.output if name],
    )
    one = helper.make_model(graph, opset_imports=list(model.opset_import))
    try:
        results = ReferenceEvaluator(one).run(None, {name: values[name] for name in inputs})
    except Exception:  # what the reference cannot compute is not known, which costs shapes at most
        return None
    arrays = [np.asarray(result) for result in results]
    if any(array.size > LARGEST_VALUE or array.dtype == object for array in arrays):
        return None
    return dict(zip([name for name in node.output if name], arrays, strict=True))


def _has_graph(node: NodeProto) -> bool:
    return any(entry.HasField("g") or entry.graphs for entry in node.attribute)


def _types_of_plugin(node: NodeProto, types: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """Return the types of what a plugin node gives; none where those of its inputs are not known."""
    inputs = [_of_type(types[name]) if name in types else None for name in node.input]
    known_inputs = [tensor for tensor in inputs if tensor is not None]
    if node.domain != DOMAIN or len(known_inputs) < len(inputs):
        return {}
    bound = bound_plugin(node, known_inputs)
    kinds = [ELEMENT_TYPES[dtype].onnx_number for dtype in bound.output_dtypes]
    return {
        name: helper.make_tensor_type_proto(kind, shape)
        for name, kind, shape in zip(node.output, kinds, bound.output_shapes, strict=True)
    }
