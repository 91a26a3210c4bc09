"""Return the shipped LeNet-5 in its precisions, as engines are built from it."""

from __future__ import annotations

import copy

import onnx

from lenet_trt.bench.engine_tool import EngineModel, with_plugins
from lenet_trt.export.geometry import IMAGE_SHAPE, INPUT
from lenet_trt.kernel.shapes import Shape


def lenet5_model(precision: str) -> EngineModel:
    """Return the shipped LeNet-5 in a precision, as engines are built from it."""
    from lenet_trt.export.lenet5 import SHIPPED
    from lenet_trt.onnx_model.precision import convert

    network = onnx.load(SHIPPED)
    if precision == "fp32":
        return EngineModel(network, with_plugins(network))
    half = convert(copy.deepcopy(network), precision)
    return EngineModel(half, with_plugins(half), half=True, weak=network)


def quantized_lenet5_model(in_bytes: bool, half: bool = False) -> EngineModel:
    """Return the shipped int8 LeNet-5; ``in_bytes``: it takes quantized images; ``half``: the rest may be fp16.

    ``half`` is a permission that TensorRT 8 has; newer releases take the types of the file.
    """
    from lenet_trt.export.lenet5 import lenet5_int8
    from lenet_trt.onnx_model.quantization import with_quantized_input

    network = with_quantized_input(lenet5_int8()) if in_bytes else lenet5_int8()
    weak, flags = (network, ("inputIOFormats=int8:chw",)) if in_bytes else (None, ())
    return EngineModel(network, with_plugins(network), half=half, int8=True, weak=weak, weak_flags=flags)


def lenet5_shapes(smallest: int, usual: int, largest: int) -> list[dict[str, Shape]]:
    """Return the shapes of LeNet-5's input at three batch sizes, as an engine is built for them."""
    return [{INPUT: (batch, *IMAGE_SHAPE)} for batch in (smallest, usual, largest)]
