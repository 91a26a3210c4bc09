"""Define the element types: what code must know to store, name, size or compute with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_NARROW_ARITHMETIC = ("int8", "fp8")


@dataclass(frozen=True)
class ElementType:
    """Describe one element type. ``name``: its name in NumPy (with ml_dtypes), torch and this toolkit.

    ``onnx_number`` is its number in ``onnx.TensorProto``; ``cuda_name`` is what CUDA C++ calls it and
    ``tensorrt_name`` its member of ``trt.DataType`` (None: has none, so that no kernel can store it).
    ``arithmetic`` names what computes with it ("": only copies and indexes); tensor cores take its products from the
    architecture ``lowest_sm`` on.
    """

    name: str
    size_bytes: int
    onnx_number: int
    cuda_name: str | None
    tensorrt_name: str | None
    arithmetic: str = ""
    lowest_sm: int = 75

    @property
    def tensorrt_plugin_name(self) -> str:
        """Return the name in the texts of ``tensorrt.plugin``, which has two names of its own."""
        return {"FLOAT": "FP32", "HALF": "FP16"}.get(self.tensorrt_name or "", self.tensorrt_name or self.name)

    @property
    def quantized(self) -> bool:
        """Say whether QuantizeLinear produces the type, whose values mean something only with a scale."""
        return self.arithmetic in _NARROW_ARITHMETIC

    @property
    def in_kernels(self) -> bool:
        """Say whether a kernel may declare it: CUDA C++ and TensorRT both have it."""
        return self.cuda_name is not None and self.tensorrt_name is not None


# Numbers: onnx.TensorProto.DataType; importing onnx for them would slow down those who only list kernels.
ELEMENT_TYPES: Mapping[str, ElementType] = {
    each.name: each
    for each in (
        ElementType("float32", 4, 1, "float", "FLOAT", "fp32"),
        ElementType("float16", 2, 10, "__half", "HALF", "fp16"),
        ElementType("bfloat16", 2, 16, "__nv_bfloat16", "BF16", "bf16", lowest_sm=80),
        ElementType("float8_e4m3fn", 1, 17, "__nv_fp8_e4m3", "FP8", "fp8", lowest_sm=89),
        ElementType("float64", 8, 11, "double", None, "fp64"),
        ElementType("int8", 1, 3, "signed char", "INT8", "int8"),
        ElementType("uint8", 1, 2, "unsigned char", "UINT8", "int8"),
        ElementType("int32", 4, 6, "int", "INT32"),
        ElementType("int64", 8, 7, "long long", "INT64"),
        ElementType("bool", 1, 9, "bool", "BOOL"),
    )
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy type of this name; ml_dtypes, a dependency of ONNX, has the types that NumPy lacks."""
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name, name))
