"""Declare a kernel: its axes, tensors, types, variants and launches; every route is derived from the declaration."""

from lenet_trt.kernel.attributes import Attribute, AttributeValue, FloatAttribute, IntegerAttribute
from lenet_trt.kernel.declaration import INT32_MAX, BesidePlugins, Kernel
from lenet_trt.kernel.tensor_maps import TensorMap
from lenet_trt.kernel.tensors import Axis, Packing, Tensor, Types, float_types
from lenet_trt.kernel.variants import MAX_GRID_Y, Launch, Variant

__all__ = [
    "INT32_MAX",
    "MAX_GRID_Y",
    "Attribute",
    "AttributeValue",
    "Axis",
    "BesidePlugins",
    "FloatAttribute",
    "IntegerAttribute",
    "Kernel",
    "Launch",
    "Packing",
    "Tensor",
    "TensorMap",
    "Types",
    "Variant",
    "float_types",
]
