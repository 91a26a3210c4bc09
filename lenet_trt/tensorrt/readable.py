"""Bring a model into the form that one release's ONNX parser reads."""

from __future__ import annotations

from onnx import ModelProto, inliner

from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt.capabilities import Capabilities, LocalFunctions


def readable(model: ModelProto, can: Capabilities) -> ModelProto:
    """Return the model without the functions that this parser would take for a plugin's node, or does not read at all.

    The functions of plugin nodes go, so that the node stays for the plugin; others are put in place where the parser
    reads none. The model that is given stays as it is.
    """
    if can.functions is LocalFunctions.AFTER_PLUGINS or not model.functions:
        return model
    result = ModelProto()
    result.CopyFrom(model)
    del result.functions[:]
    result.functions.extend(function for function in model.functions if function.domain != DOMAIN)
    if can.functions is LocalFunctions.UNREAD and result.functions:
        result = inliner.inline_local_functions(result)
    return result
