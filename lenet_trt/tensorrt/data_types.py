"""Map the element types to TensorRT's DataType."""

from __future__ import annotations

from typing import Any

from lenet_trt.kernel.types import ELEMENT_TYPES


def data_types(trt: Any) -> dict[str, Any]:
    """Map each element type's name to its member of ``trt.DataType``; types that this version lacks are left out."""
    names = {name: element.tensorrt_name for name, element in ELEMENT_TYPES.items() if element.tensorrt_name}
    return {name: getattr(trt.DataType, theirs) for name, theirs in names.items() if hasattr(trt.DataType, theirs)}
