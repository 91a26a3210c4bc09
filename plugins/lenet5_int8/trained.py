"""Read the weights, scales and biases of the shipped quantized LeNet-5, by the names of ``lenet5_int8``."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.kernel.saturate import quantize

from . import PLAIN
from .fragments import LAYERS, SCALES, Array

# The value that goes into each layer, as the exported network names it.
_INPUTS = ("images", "pool1_output", "flatten_output", "relu3_output", "relu4_output")


def trained() -> dict[str, Array]:
    """Return the plain inputs of the kernel, except the images, in its order; as arrays of their own, for torch."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in lenet5_int8().graph.initializer}
    found = {ours: tensors[f"{name}_scale"] for ours, name in zip(SCALES, _INPUTS, strict=True)}
    for layer in LAYERS:
        scale = tensors[f"{layer}.weight_scale"]
        found[f"{layer}_weight"] = quantize(tensors[f"{layer}.weight"], scale, "int8", axis=0)
        found |= {f"{layer}_scale": scale, f"{layer}_bias": tensors[f"{layer}.bias"]}
    return {tensor.name: np.array(found[tensor.name]) for tensor in PLAIN}
