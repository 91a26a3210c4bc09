"""ONNX Runtime as other programs use it: it gets the file as it is, without what lenet_trt.runtimes.ort changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from declared_nodes import plugin_nodes_of, problems, values_around
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime


def run(model: onnx.ModelProto, /, *inputs: np.ndarray, **named: np.ndarray) -> list[np.ndarray]:
    """Run a model on the CPU, with all inputs in their order or all by name, and return its outputs.

    Its plugin nodes have to give what their kernels are declared to compute.
    """
    plugins = plugin_nodes_of(model)
    if plugins:
        values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        given = _by_name(model, inputs, named)
        inside = [name for name in values_around(plugins) if name not in values and name not in given]
        wider = onnx.ModelProto.FromString(model.SerializeToString())
        del wider.graph.output[:]
        wider.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
        # ONNX Runtime 1.32 may remove an output of a function node that is an output of the model, too.
        around = dict(zip(inside, _run(wider, given, optimized=False), strict=True))
        found = list(problems(model, plugins, {**values, **given, **around}))
        assert not found, "; ".join(found)
    return run_only(model, *inputs, **named)


def run_only(model: onnx.ModelProto, /, *inputs: np.ndarray, **named: np.ndarray) -> list[np.ndarray]:
    """Run a model, whatever its plugin nodes give."""
    return _run(model, _by_name(model, inputs, named))


def _by_name(
    model: onnx.ModelProto, inputs: Sequence[np.ndarray], named: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    return dict(named) or dict(zip(names, inputs, strict=True))


def _run(model: onnx.ModelProto, given: Mapping[str, np.ndarray], optimized: bool = True) -> list[np.ndarray]:
    runtime = onnx_runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # warnings are of no use here
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, dict(given))]
