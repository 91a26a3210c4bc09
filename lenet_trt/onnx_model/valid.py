"""Check what ONNX's checker lets pass: texts that are not UTF-8, values that do not fit shapes, unknown types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.external import needed_bytes, tensors_of

_FIX = "export it again"


def check_texts(model: ModelProto, path: Path) -> None:
    """Refuse names and other texts that are not UTF-8.

    Raises:
        LenetTrtError: there is one; says in which field.
    """
    _check_texts(model, path, "the model")


def _check_texts(message: Any, path: Path, where: str) -> None:
    said = f"{path} is not valid ONNX: a text of {where} is not UTF-8: {_FIX}"
    try:
        fields = message.ListFields()
    except UnicodeDecodeError as error:
        raise LenetTrtError(said) from error
    for descriptor, value in fields:
        repeated = not isinstance(value, (str, bytes)) and hasattr(value, "__len__")
        if descriptor.type == descriptor.TYPE_STRING:
            try:
                texts = list(value) if repeated else [value]
            except UnicodeDecodeError as error:
                raise LenetTrtError(said) from error
            if not all(isinstance(text, str) for text in texts):
                raise LenetTrtError(said)
        elif descriptor.type == descriptor.TYPE_MESSAGE:
            for entry in value if repeated else (value,):
                _check_texts(entry, path, f"a {descriptor.name}")


def check_values(model: ModelProto, path: Path) -> None:
    """Refuse tensors whose values do not fit their shapes, and types that do not exist.

    Raises:
        LenetTrtError: there is one; says which.
    """
    for tensor in tensors_of(model):
        _check_tensor(tensor, path)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        _check_type(value, path)


def _check_tensor(tensor: TensorProto, path: Path) -> None:
    where = f"{path} is not valid ONNX: the tensor {tensor.name!r}"
    if not tensor.HasField("raw_data"):
        try:
            if tensor.data_type or tensor.dims:
                numpy_helper.to_array(tensor)
        except (KeyError, TypeError, ValueError) as error:
            raise LenetTrtError(f"{where} has values that do not fit its type and shape ({error}): {_FIX}") from error
        return
    needed = needed_bytes(tensor, where)
    if len(tensor.raw_data) != needed:
        raise LenetTrtError(f"{where} has {len(tensor.raw_data):,} bytes; its type and shape need {needed:,}: {_FIX}")


def _check_type(value: ValueInfoProto, path: Path) -> None:
    if not value.type.HasField("tensor_type"):
        return
    kind = value.type.tensor_type.elem_type
    try:
        onnx.helper.tensor_dtype_to_np_dtype(kind)
    except (KeyError, TypeError, ValueError) as error:
        raise LenetTrtError(
            f"{path} is not valid ONNX: {value.name!r} has the type number {kind}, which is none: {_FIX}"
        ) from error
