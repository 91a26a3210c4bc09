"""Check that a plan's model is still right: against float64 where torch can compute that, else the plain model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error
from lenet_trt.optimize.records import Accuracy

# What outputs are compared with: the first of these that can be had.
FLOAT64 = "float64"
ONNX_RUNTIME = "ONNX Runtime on the CPU"
PLAIN = "the model as it is"
# The largest relative error in norm of an output, by the narrowest type in which the model computes.
TOLERANCES = {"fp32": 1e-5, "fp16": 4e-3, "bf16": 3e-2}
# Where the model as it is misses the tolerance, as with a TopK whose elements are nearly equal, this times its error.
_AS_FAR = 2
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
# With more bytes of inputs in float64, the next reference is taken.
_LARGEST_REFERENCE = 8 << 30


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with every floating-point tensor, constant and cast in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(onnx.inliner.inline_local_functions(model) if model.functions else model)
    graph = wide.graph
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _FLOATS:
                attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
            value = onnx.helper.get_attribute_value(node.attribute[0])
            tensor = numpy_helper.from_array(np.asarray(value, np.float64))
            node.attribute[0].CopyFrom(onnx.helper.make_attribute("value", tensor))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _FLOATS:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]
    return wide


def float64_outputs(model: onnx.ModelProto, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Compute the outputs in float64, by torch, on the GPU where there is one.

    Raises:
        LenetTrtError: torch is missing, torch does not have an operator, or the memory is too small.
    """
    if sum(array.size for array in arrays) * 8 > _LARGEST_REFERENCE:
        raise LenetTrtError("the inputs are too large in float64")
    try:
        import torch
    except ImportError as error:
        raise LenetTrtError(f"torch is missing ({error})") from error
    from lenet_trt.runtimes.graph.torch_program import TorchProgram

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    program = TorchProgram(in_float64(model), device)
    wide = [np.asarray(array, np.float64) if array.dtype.kind not in "iub" else array for array in arrays]
    try:
        with torch.no_grad():
            outputs = program.run([torch.from_numpy(array).to(device) for array in wide], {})
            return [output.cpu().numpy() for output in outputs]
    except torch.OutOfMemoryError as error:
        raise LenetTrtError("the GPU has not enough memory for float64") from error
    finally:
        outputs = []
        del program
        if device.type == "cuda":
            torch.cuda.empty_cache()


def onnx_runtime_outputs(model: onnx.ModelProto, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Compute the outputs by ONNX Runtime, in the types of the model.

    Raises:
        LenetTrtError: it does not run the model.
    """
    from lenet_trt.runtimes.ort import OrtCpu

    return OrtCpu(model).run(arrays)


def worst_error(outputs: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> float:
    """Return the largest relative error in norm among the outputs.

    Raises:
        LenetTrtError: outputs cannot be compared: their shapes differ, or one has NaN or infinity where the other has
            not, or differs from zeros alone.
    """
    worst = 0.0
    for index, (output, expected) in enumerate(zip(outputs, wanted, strict=True)):
        if output.shape != expected.shape:
            shapes = f"{list(output.shape)}, and the reference has {list(expected.shape)}"
            raise LenetTrtError(f"output {index} cannot be compared: its shape is {shapes}")
        exact = np.asarray(expected)
        error = relative_error(np.asarray(output), exact if exact.dtype.kind in "iub" else _wide(exact))
        if not math.isfinite(error):
            raise LenetTrtError(
                f"output {index} cannot be compared: it differs from the reference in NaN or infinity, or from zeros"
            )
        worst = max(worst, error)
    return worst


def problem(found: Accuracy, max_drop: float) -> str | None:
    """Say why these results are refused; return None where they are good enough."""
    if found.error is None:
        return found.problem
    allowed = max(found.tolerance, _AS_FAR * (found.plain_error or 0.0))
    if not found.error <= allowed:
        return f"not accurate enough: {found.text}; allowed {allowed:.1e}"
    if found.labelled and found.correct is not None and found.plain_correct is not None:
        drop = 100 * (found.plain_correct - found.correct) / found.labelled
        if drop > max_drop:
            return f"{drop:.2f} points of accuracy lost, more than the {max_drop:g} allowed: {found.text}"
    return None


def tolerance_of(kinds: frozenset[str] | set[str], given: float | None) -> float:
    """Return the given tolerance, or the tolerance of the narrowest type."""
    if given is not None:
        return given
    known: Mapping[str, float] = TOLERANCES
    return max((known[kind] for kind in kinds if kind in known), default=known["fp32"])


def _wide(array: NDArray[Any]) -> NDArray[np.float64]:
    return array.astype(np.float64)


def _widen(tensor: TensorProto) -> None:
    if tensor.data_type in _FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
