"""Declare a kernel: its axes, tensors, types, variants and launches; every route is derived from the declaration."""

from lenet_trt.kernel.declaration import (
    INT32_MAX,
    Attribute,
    AttributeValue,
    Axis,
    Kernel,
    Launch,
    Packing,
    Tensor,
    Types,
    Variant,
)

__all__ = [
    "INT32_MAX",
    "Attribute",
    "AttributeValue",
    "Axis",
    "Kernel",
    "Launch",
    "Packing",
    "Tensor",
    "Types",
    "Variant",
]
