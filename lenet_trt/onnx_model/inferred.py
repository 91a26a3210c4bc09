"""Infer the shapes of a model of which some axes are open, further than ONNX does.

ONNX's inference loses track where a shape is computed from an open axis, as in each attention of an export with an
open batch: it then knows neither the heads nor the length, which are fixed. Here the nodes are gone through once more,
in order, with what ``open_sizes.py`` knows of computed shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import onnx
from onnx import helper

from lenet_trt.onnx_model.open_sizes import (
    MOST_ELEMENTS,
    ONE,
    Element,
    Elements,
    Size,
    computed,
    elements_of,
    numbers,
    product_of,
)

_STANDARD = ("", "ai.onnx")
_WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
_SHAPED = ("ConstantOfShape", "Expand", "Reshape", "Tile")
Sizes: TypeAlias = "Sequence[Size | None]"
Types: TypeAlias = "Mapping[str, onnx.TypeProto]"
Others: TypeAlias = "Callable[[onnx.NodeProto, Types], Types]"


def inferred(model: onnx.ModelProto, others: Others | None = None) -> onnx.ModelProto:
    """Return the model with what is known of each value's type and shape; an axis is a number, a name or open.

    It has no elements of large weights, since ONNX's inference would copy them.
    ``others`` tells the types of the outputs of nodes that are not ONNX's own, from the types that are known so far.

    Raises:
        onnx.shape_inference.InferenceError: the model contradicts itself.
    """
    known = onnx.shape_inference.infer_shapes(without_large_weights(model), data_prop=True)
    note(known.graph, _Inference(known, others).found())
    return known


def with_inferred_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model with the types that ONNX infers, in subgraphs too; those of weights are their own.

    Raises:
        onnx.shape_inference.InferenceError: the model contradicts itself.
    """
    known = onnx.shape_inference.infer_shapes(without_large_weights(model)).graph
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    weights = {tensor.name for tensor in copied.graph.initializer}
    values = [value for value in known.value_info if value.name not in weights]
    for field, typed in (("node", known.node), ("output", known.output), ("value_info", values)):
        del getattr(copied.graph, field)[:]
        getattr(copied.graph, field).extend(typed)
    return copied


def without_large_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that has of each large tensor of floats its type and shape alone."""
    light = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions, opset_import=model.opset_import)
    graph = model.graph
    light.graph.name = graph.name
    for kept in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, kept).extend(getattr(graph, kept))
    for tensor in graph.initializer:
        if is_large_weight(tensor):
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.graph.initializer.append(tensor)
    return light


def is_large_weight(tensor: onnx.TensorProto) -> bool:
    """Return whether a tensor is of floats, and so large that no shape is computed from it."""
    return tensor.data_type in _FLOATS and math.prod(tensor.dims) > MOST_ELEMENTS


def declared_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Return what the graph says of its values, by name."""
    return {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}


def note(graph: onnx.GraphProto, types: Types) -> None:
    """Write the types into the graph, in place of what it says of these values."""
    said = [value for value in (*graph.value_info, *graph.output) if value.name in types]
    for value in said:
        value.type.CopyFrom(types[value.name])
    new = types.keys() - {value.name for value in said}
    graph.value_info.extend(onnx.ValueInfoProto(name=name, type=types[name]) for name in sorted(new))


class _Inference:
    """Go through the nodes of a graph, and collect the types of which more is known than before."""

    def __init__(self, model: onnx.ModelProto, others: Others | None) -> None:
        graph = model.graph
        self._model, self._others = model, others
        self._opset = next((entry.version for entry in model.opset_import if entry.domain in _STANDARD), 1)
        self._types = declared_types(graph)
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._values: dict[str, Elements] = {}
        self._computed: set[str] = set()  # the values that ONNX may not have
        self._composed: dict[str, Size] = {}  # by the name that stands for them in a type
        self._found: dict[str, onnx.TypeProto] = {}
        for tensor in graph.initializer:
            self._types.setdefault(tensor.name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
            elements = elements_of(tensor)
            if elements is not None:
                self._values[tensor.name] = elements

    def found(self) -> Types:
        """Return the types that became better known, by the name of the value."""
        for node in self._model.graph.node:
            if node.domain not in _STANDARD:
                for name, kind in (self._others(node, self._types) if self._others else {}).items():
                    self._learn(name, kind)
                continue
            shape = self._reshaped(node)
            if shape is not None:
                self._learn(node.output[0], self._type_of(node, shape))
            elif any(name in self._found or name in self._computed for name in node.input):
                self._infer(node)
            self._compute(node)
        return self._found

    def _reshaped(self, node: onnx.NodeProto) -> Sizes | None:
        """Return the shape that a node gets from the value of an input."""
        if node.op_type == "Range":
            return _counted(*map(self._values.get, node.input))
        wanted = self._values.get(node.input[-1]) if node.op_type in _SHAPED else None
        if wanted is None:
            return None
        sizes = [element if isinstance(element, Size) else None for element in wanted]
        given = self._shape(node.input[0])
        if node.op_type == "ConstantOfShape":
            return sizes
        if node.op_type == "Reshape":
            copies = not any(entry.name == "allowzero" and entry.i for entry in node.attribute)
            return _filled_in(given, sizes, copies)
        if given is None:
            return None
        if node.op_type == "Tile":
            return [product_of(pair) for pair in zip(given, sizes, strict=True)] if len(given) == len(sizes) else None
        return _broadcast(given, sizes)

    def _infer(self, node: onnx.NodeProto) -> None:
        """Ask ONNX again, now that more is known of the inputs."""
        types = {name: self._types[name] for name in node.input if name in self._types}
        complete = all(name in types for name in node.input if name)
        if not complete or any(entry.HasField("g") for entry in node.attribute):
            return
        data = {name: tensor for name in node.input if name and (tensor := self._constant(name)) is not None}
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, "")
            outputs = onnx.shape_inference.infer_node_outputs(
                schema,
                node,
                types,
                data,
                opset_imports=list(self._model.opset_import),
                ir_version=self._model.ir_version,
            )
        except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError):
            return  # what is known without this stays
        for name, kind in outputs.items():
            self._learn(name, kind)

    def _compute(self, node: onnx.NodeProto) -> None:
        """Note what is known of the node's result, where it can be a shape."""
        if len(node.output) != 1:
            return
        elements = computed(node, self._values, self._shape)
        if elements is None:
            return
        shape = self._shape(node.output[0])
        if shape is None or len(shape) > 1:
            return
        elem_type = self._types[node.output[0]].tensor_type.elem_type
        if elem_type not in _WHOLE or not all(_holds(elem_type, element) for element in elements):
            return
        length = shape[0] if shape else Size(1)
        if length is None or length.names or length.factor == len(elements):
            self._values[node.output[0]] = elements
            if node.op_type != "Constant":
                self._computed.add(node.output[0])

    def _constant(self, name: str) -> onnx.TensorProto | None:
        if name in self._constants:
            tensor = self._constants[name]
            return tensor if math.prod(tensor.dims) <= MOST_ELEMENTS else None
        elements, kind = self._values.get(name), self._types.get(name)
        known = numbers(elements) if elements is not None else None
        if known is None or kind is None:
            return None
        return helper.make_tensor(
            name, kind.tensor_type.elem_type, [len(known)] * len(kind.tensor_type.shape.dim), known
        )

    def _shape(self, name: str) -> Sizes | None:
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [self._size(dim) for dim in kind.tensor_type.shape.dim]

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> Size | None:
        if dim.HasField("dim_value"):
            return Size(dim.dim_value)
        return self._composed.get(dim.dim_param, Size(1, (dim.dim_param,))) if dim.dim_param else None

    def _type_of(self, node: onnx.NodeProto, shape: Sizes) -> onnx.TypeProto | None:
        kind = self._types.get(node.output[0])
        if kind is None and node.op_type != "ConstantOfShape":
            kind = self._types.get(node.input[0])
        if kind is None:
            return None
        dims: list[int | str | None] = []
        for size in shape:
            if size is None or size.factor < 0 or not _holds(onnx.TensorProto.INT64, size):
                dims.append(None)
            elif size.number is not None:
                dims.append(size.number)
            else:
                dims.append(str(size))
                self._composed[str(size)] = size
        return helper.make_tensor_type_proto(kind.tensor_type.elem_type, dims)

    def _learn(self, name: str, kind: onnx.TypeProto | None) -> None:
        """Keep a type where it says more than what was known."""
        if kind is None or not kind.tensor_type.HasField("shape"):
            return
        old = self._types.get(name)
        merged = onnx.TypeProto()
        merged.CopyFrom(kind)
        # Where ONNX does not know a target's elements, it may give the Reshape of it no axes at all.
        if old is not None and len(old.tensor_type.shape.dim) == len(kind.tensor_type.shape.dim):
            for mine, before in zip(merged.tensor_type.shape.dim, old.tensor_type.shape.dim, strict=True):
                if before.HasField("dim_value") or not (mine.HasField("dim_value") or mine.dim_param):
                    mine.CopyFrom(before)
        if old is None or merged != old:
            self._types[name] = self._found[name] = merged


def _holds(elem_type: int, element: Element) -> bool:
    """Say whether a number of this type can be the element; one that is too large is another when the model runs."""
    if not isinstance(element, Size) or elem_type == onnx.TensorProto.BOOL:
        return True
    bits = 31 if elem_type == onnx.TensorProto.INT32 else 63
    return -(2**bits) <= element.factor < 2**bits


def _broadcast(given: Sizes, target: Sizes) -> Sizes:
    """Return the shape of an ``Expand``: a size that is 1 gives way to the other one."""
    length = max(len(given), len(target))
    ones = [[ONE] * (length - len(each)) for each in (given, target)]
    pairs = zip([*ones[0], *given], [*ones[1], *target], strict=True)
    return [b if a == ONE else a if b in (ONE, a) or (a is not None and not a.names) else None for a, b in pairs]


def _counted(start: Elements | None, limit: Elements | None, step: Elements | None) -> Sizes | None:
    """Return the shape of a ``Range`` that counts to an open size, as exporters index the texts of a batch."""
    if start != [Size(0)] or step != [ONE] or limit is None or len(limit) != 1:
        return None
    (size,) = limit
    return [size] if isinstance(size, Size) and size.factor > 0 else None


def _filled_in(given: Sizes | None, target: Sizes, copies: bool) -> Sizes:
    """Return the shape of a ``Reshape``: 0 copies a size of the input, -1 is what remains."""
    shape: list[Size | None] = []
    for axis, size in enumerate(target):
        copied = copies and size == Size(0)
        shape.append((given[axis] if given is not None and axis < len(given) else None) if copied else size)
    if Size(-1) not in shape:
        return shape
    at = shape.index(Size(-1))
    whole = product_of(given) if given is not None else None
    others = product_of(size for axis, size in enumerate(shape) if axis != at)
    shape[at] = whole.divided(others) if whole is not None and others is not None else None
    return shape
