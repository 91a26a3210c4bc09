"""Write the ``Attention`` nodes of opset 23 and newer as the products and the softmax that they stand for.

torch's dynamo exporter writes them from opset 23 on. TensorRT has kernels for half types alone, and no build for
float32; patterns of our kernels are for what is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from lenet_trt.onnx_model.inferred import declared_types, inferred
from lenet_trt.onnx_model.profiles import type_axes

# The first opset that has the node; TensorRT's parsers that are documented for it read it.
ATTENTION_OPSET = 23
_FLOAT = onnx.TensorProto.FLOAT
# The newest inputs and outputs, as the key and value of earlier steps, are written by other means.
_LARGEST_INPUTS, _MASK = 4, 3


def written_out(model: onnx.ModelProto, halves: bool = False) -> onnx.ModelProto:
    """Return the model with its attention in float32 written out; with ``halves`` that in half types as well.

    Attention with grouped heads, a cache, a soft cap or unknown sizes stays. Without any, it is the given model.
    """
    if not any(_is_attention(node) for node in model.graph.node):
        return model
    types = declared_types(inferred(model).graph)
    parts = {index: _parts(node, types, halves) for index, node in enumerate(model.graph.node) if _is_attention(node)}
    usable = {index: each for index, each in parts.items() if each is not None}
    if not usable:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for index, node in enumerate(model.graph.node):
        if index not in usable:
            result.graph.node.append(node)
            continue
        result.graph.node.extend(usable[index].nodes())
        result.graph.initializer.extend(usable[index].tensors())
    return result


def _is_attention(node: onnx.NodeProto) -> bool:
    return node.op_type == "Attention" and node.domain in ("", "ai.onnx")


@dataclass(frozen=True)
class _Parts:
    """Hold what is written out of a node."""

    inputs: Sequence[str]
    output: str
    dtype: np.dtype[Any]
    scale: float
    mask_is_bool: bool
    causal: tuple[int, int] | None  # the numbers of queries and keys
    name: str

    def tensors(self) -> Iterator[onnx.TensorProto]:
        """Yield the constants."""
        yield self._tensor("scale", np.array(self.scale, self.dtype))
        if self.mask_is_bool:
            yield self._tensor("allowed", np.array(0, self.dtype))
            yield self._tensor("forbidden", np.array(-np.inf, self.dtype))
        if self.causal is not None:
            later = np.triu(np.ones(self.causal, bool), 1)
            yield self._tensor("causal", np.where(later, -np.inf, 0).astype(self.dtype))

    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Yield softmax(scale q k^T + mask) v."""
        queries, keys, values = self.inputs[:3]
        yield self._node("Transpose", [keys], "keys", perm=[0, 1, 3, 2])
        yield self._node("MatMul", [queries, self._value("keys")], "products")
        yield self._node("Mul", [self._value("products"), self._value("scale")], "scores")
        scores = self._value("scores")
        if len(self.inputs) > _MASK:
            mask = self.inputs[_MASK]
            if self.mask_is_bool:
                yield self._node("Where", [mask, self._value("allowed"), self._value("forbidden")], "mask")
                mask = self._value("mask")
            yield self._node("Add", [scores, mask], "masked")
            scores = self._value("masked")
        if self.causal is not None:
            yield self._node("Add", [scores, self._value("causal")], "past")
            scores = self._value("past")
        yield self._node("Softmax", [scores], "weights", axis=-1)
        yield helper.make_node("MatMul", [self._value("weights"), values], [self.output], name=self.name)

    def _value(self, part: str) -> str:
        return f"{self.output}.{part}"

    def _tensor(self, part: str, array: NDArray[Any]) -> onnx.TensorProto:
        return numpy_helper.from_array(array, self._value(part))

    def _node(self, op_type: str, inputs: Sequence[str], part: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [self._value(part)], name=f"{self.name}.{part}", **attributes)


def _parts(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], halves: bool) -> _Parts | None:
    """Return what is to be written for the node, or None where it stays."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    inputs = list(node.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    shapes = [type_axes(types[name]) if name in types else None for name in inputs]
    plain = len(inputs) <= _LARGEST_INPUTS and len([name for name in node.output if name]) == 1
    if not plain or attributes.get("softcap") or any(shape is None or len(shape) != 4 for shape in shapes[:3]):
        return None
    (_, heads, queries, depth), (_, key_heads, keys, _) = (shape or () for shape in shapes[:2])
    if not isinstance(depth, int) or not isinstance(heads, int) or heads != key_heads:
        return None
    elem_type = types[inputs[0]].tensor_type.elem_type
    if elem_type != _FLOAT and not halves:
        return None
    causal = None
    if attributes.get("is_causal"):
        if not isinstance(queries, int) or not isinstance(keys, int):
            return None
        causal = (queries, keys)
    mask = types.get(inputs[_MASK]) if len(inputs) > _MASK else None
    if len(inputs) > _MASK and (mask is None or (shapes[_MASK] or ())[-1:] != (keys,)):
        return None  # a shorter mask stands for a padded one
    return _Parts(
        inputs=inputs,
        output=node.output[0],
        dtype=helper.tensor_dtype_to_np_dtype(elem_type),
        scale=attributes.get("scale", 1 / math.sqrt(depth)),
        mask_is_bool=mask is not None and mask.tensor_type.elem_type == onnx.TensorProto.BOOL,
        causal=causal,
        name=node.name or node.output[0],
    )
