"""Read weights beside a model's file: they are checked against the tensors before any byte of them is read.

A model names the files that its weights lie in, and says where in them. Whoever made the model may have named any file
of the machine, of any size.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from lenet_trt.errors import LenetTrtError

_BITS = {
    kind: bits
    for names, bits in ((("UINT4", "INT4", "FLOAT4E2M1"), 4), (("UINT2", "INT2"), 2))
    for name in names
    if (kind := getattr(TensorProto, name, None)) is not None
}


@dataclass(frozen=True)
class ExternalPiece:
    """Hold where the bytes of one tensor are: the file, the offset and the length."""

    tensor: str
    location: str
    offset: int
    size_bytes: int


def external_pieces(model: ModelProto, path: Path) -> list[ExternalPiece]:
    """Find where the weights of a model lie that are not in its own file, and check all of it.

    Raises:
        LenetTrtError: a file outside the model's folder, or none; a part that is not in the file, or not of the
            tensor's size. Says which tensor.
    """
    return [_piece(tensor, path) for tensor in tensors_of(model) if tensor.data_location == TensorProto.EXTERNAL]


def _piece(tensor: TensorProto, path: Path) -> ExternalPiece:
    said = {entry.key: entry.value for entry in tensor.external_data}
    name, location = tensor.name or "a constant", said.get("location", "")
    where = f"{path} keeps the weights {name!r} in {location!r}"
    _check_location(location, path.parent, where)
    size = (path.parent / location).stat().st_size
    needed = needed_bytes(tensor, where)
    numbers = {key: said.get(key, "0" if key == "offset" else None) for key in ("offset", "length")}
    for key, text in numbers.items():
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 20):
            raise LenetTrtError(f"{where}, and its {key} is {text!r:.60}; wanted a number of bytes: export it again")
    offset = int(numbers["offset"] or 0)
    length = size - offset if numbers["length"] is None else int(numbers["length"])
    if length != needed:
        raise LenetTrtError(
            f"{where}, {length:,} bytes from byte {offset:,} on; its type and shape need {needed:,}: export it again"
        )
    if offset + length > size:
        raise LenetTrtError(
            f"{where}, which has {size:,} bytes; wanted {offset + length:,}: it was cut off, copy it or export again"
        )
    return ExternalPiece(tensor.name, location, offset, length)


def _check_location(location: str, folder: Path, where: str) -> None:
    """Refuse what lies outside the model's folder, by its name or through a link, and what is no file."""
    parts = PurePosixPath(location).parts
    if not location or "\0" in location or PurePosixPath(location).is_absolute() or ".." in parts:
        raise LenetTrtError(f"{where}; wanted a file in the model's folder: export it with the weights beside it")
    target = folder / location
    try:
        mode = target.stat().st_mode
    except OSError:
        raise LenetTrtError(f"{where}, which is not there: put it beside the model") from None
    if not stat.S_ISREG(mode):
        raise LenetTrtError(f"{where}, which is no file: put the weights beside the model")
    inside = os.path.realpath(folder)
    if os.path.commonpath([inside, os.path.realpath(target)]) != inside:
        raise LenetTrtError(f"{where}, which leads out of the model's folder: copy the weights beside the model")


def needed_bytes(tensor: TensorProto, where: str) -> int:
    """Return the bytes that a tensor of this type and shape has; ``where`` begins the error.

    Raises:
        LenetTrtError: the type has no size in bytes, or the shape is none.
    """
    if any(size < 0 for size in tensor.dims):
        raise LenetTrtError(f"{where}, and its shape is {list(tensor.dims)}: export it again")
    count = math.prod(tensor.dims)
    if (bits := _BITS.get(tensor.data_type)) is not None:
        return -(-count * bits // 8)
    try:
        itemsize = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError, ValueError):
        itemsize = 0
    if itemsize == 0 or tensor.data_type == TensorProto.STRING:
        raise LenetTrtError(f"{where}, and its type is number {tensor.data_type}: no type that lies in a file")
    return count * itemsize


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor with values: initializers and attributes, also of inner graphs and of functions."""
    yield from _tensors(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: list[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from _of_attribute(attribute)


def _of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for sparse in (*attribute.sparse_tensors, attribute.sparse_tensor):  # an absent one is empty
        yield from (sparse.values, sparse.indices)
    for graph in attribute.graphs:
        yield from _tensors(graph)
    if attribute.HasField("g"):
        yield from _tensors(attribute.g)
