"""ONNX Runtime as other programs use it: it gets the file as it is, without what lenet_trt.runtimes.ort changes."""

from __future__ import annotations

import numpy as np
import onnx

from lenet_trt.onnx_model.onnx_runtime import onnx_runtime


def run(model: onnx.ModelProto, /, *inputs: np.ndarray, **named: np.ndarray) -> list[np.ndarray]:
    """Run a model on the CPU, with all inputs in their order or all by name, and return its outputs."""
    runtime = onnx_runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # warnings are of no use here
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    given = named or dict(zip(names, inputs, strict=True))
    return [np.asarray(array) for array in session.run(None, given)]
