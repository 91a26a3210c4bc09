"""The element types of kernels: one size and one name each, whoever asks."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from lenet_trt.kernel.types import ELEMENT_TYPES, numpy_dtype
from lenet_trt.onnx_model.shapes import Tensor
from lenet_trt.tensorrt.layers import bytes_of

ONNX_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}
# Source: the CUDA C++ Programming Guide, for types and their sizes.
CUDA = {
    "float32": ("float", 4),
    "float16": ("__half", 2),
    "bfloat16": ("__nv_bfloat16", 2),
    "int32": ("int", 4),
    "int8": ("signed char", 1),
    "uint8": ("unsigned char", 1),
}


def test_each_type_has_the_name_and_the_size_that_cuda_gives_it() -> None:
    assert {name: (kind.cuda_name, kind.size_bytes) for name, kind in ELEMENT_TYPES.items()} == CUDA


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_numpy_onnx_and_engine_layers_agree_on_the_size(name: str) -> None:
    size = ELEMENT_TYPES[name].size_bytes
    assert numpy_dtype(name).name == name
    assert numpy_dtype(name).itemsize == size
    assert Tensor((3, 5), ONNX_TYPES[name]).bytes == 15 * size
    assert Tensor((3, 5), ONNX_TYPES[name]).dtype == name
    assert bytes_of(15, name) == 15 * size
