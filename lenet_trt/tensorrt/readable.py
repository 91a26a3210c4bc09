"""Bring a model into the form that one release's ONNX parser reads."""

from __future__ import annotations

from onnx import ModelProto, inliner

from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.quantization import write_zero_points
from lenet_trt.tensorrt.capabilities import Capabilities, LocalFunctions


def readable(model: ModelProto, can: Capabilities) -> ModelProto:
    """Return the model without the functions that this parser would take for a plugin's node, or does not read at all.

    The functions of plugin nodes go, so that the node stays for the plugin; others are put in place where the parser
    reads none. Zero points that may be left out are written where the parser wants them. The model that is given stays
    as it is.
    """
    functions = can.functions is not LocalFunctions.AFTER_PLUGINS and model.functions
    if not functions and can.zero_points:
        return model
    result = ModelProto()
    result.CopyFrom(model)
    if not can.zero_points:
        write_zero_points(result)
    if functions:
        del result.functions[:]
        result.functions.extend(function for function in model.functions if function.domain != DOMAIN)
        if can.functions is LocalFunctions.UNREAD and result.functions:
            result = inliner.inline_local_functions(result)
    return result
