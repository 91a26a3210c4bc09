"""The table of element types says of each what NumPy, ONNX, torch, TensorRT and the CUDA compiler say."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from lenet_trt.cuda.compile import cuda_include_dir
from lenet_trt.cuda.nvrtc import ask_nvrtc, bindings
from lenet_trt.kernel.types import ELEMENT_TYPES, ElementType, numpy_dtype
from lenet_trt.tensorrt import flavors

ALL = pytest.mark.parametrize("element", ELEMENT_TYPES.values(), ids=lambda element: element.name)


@ALL
def test_numpy_and_onnx_know_it_by_its_name_and_size(element: ElementType) -> None:
    dtype = numpy_dtype(element.name)
    assert dtype.name == element.name
    assert dtype.itemsize == element.size_bytes
    assert onnx.helper.np_dtype_to_tensor_dtype(dtype) == element.onnx_number
    assert np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element.onnx_number)) == dtype


@ALL
def test_torch_knows_it_by_its_name_and_size(element: ElementType) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    assert getattr(torch, element.name).itemsize == element.size_bytes


@ALL
def test_tensorrt_has_it_under_that_name(element: ElementType) -> None:
    trt = flavors.select("rtx").trt
    if element.tensorrt_name is None:
        assert element.name == "float64"  # TensorRT has no double
        return
    member = getattr(trt.DataType, element.tensorrt_name)
    assert member.itemsize == element.size_bytes


def test_only_two_types_have_another_name_in_tensorrt_plugin() -> None:
    assert ELEMENT_TYPES["float32"].tensorrt_plugin_name == "FP32"
    assert ELEMENT_TYPES["float16"].tensorrt_plugin_name == "FP16"
    same = [each for each in ELEMENT_TYPES.values() if each.tensorrt_plugin_name == each.tensorrt_name]
    assert len(same) == len(ELEMENT_TYPES) - 3  # these two, and float64


def test_kinds_of_arithmetic_are_told_apart() -> None:
    kinds = {name: each.arithmetic for name, each in ELEMENT_TYPES.items() if each.arithmetic}
    assert kinds == {
        "float32": "fp32",
        "float16": "fp16",
        "bfloat16": "bf16",
        "float8_e4m3fn": "fp8",
        "float64": "fp64",
        "int8": "int8",
        "uint8": "int8",
    }
    assert {name for name, each in ELEMENT_TYPES.items() if each.quantized} == {"float8_e4m3fn", "int8", "uint8"}
    assert {name: each.lowest_sm for name, each in ELEMENT_TYPES.items() if each.lowest_sm != 75} == {
        "bfloat16": 80,
        "float8_e4m3fn": 89,
    }


@ALL
def test_the_cuda_compiler_gives_it_that_size(element: ElementType) -> None:
    nvrtc = bindings()
    assert element.cuda_name is not None
    header = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h", "__nv_fp8_e4m3": "cuda_fp8.h"}
    include = f"#include <{header[element.cuda_name]}>\n" if element.cuda_name in header else ""
    text = f'{include}static_assert(sizeof({element.cuda_name}) == {element.size_bytes}, "size");'
    program = ask_nvrtc(nvrtc.nvrtcCreateProgram(text.encode(), b"size.cu", 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--include-path={cuda_include_dir()}".encode()])
    nvrtc.nvrtcDestroyProgram(program)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
