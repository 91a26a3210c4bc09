"""The element types that kernels store, by the names that numpy and ONNX give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ElementType:
    """One element type: its size and what CUDA C++ calls it."""

    size_bytes: int
    cuda_name: str


ELEMENT_TYPES = {
    "float32": ElementType(4, "float"),
    "float16": ElementType(2, "__half"),
    "bfloat16": ElementType(2, "__nv_bfloat16"),
    "int32": ElementType(4, "int"),
    "int8": ElementType(1, "signed char"),
    "uint8": ElementType(1, "unsigned char"),
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of that name; bfloat16 comes from ml_dtypes, which ONNX depends on."""
    import ml_dtypes
    import numpy as np

    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
