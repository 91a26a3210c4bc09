"""Write the two cases of the write-ups as ONNX: a batched matrix-vector product and a convolution layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import UsageError
from lenet_trt.export.geometry import BATCH, IMAGE_SHAPE
from lenet_trt.export.onnx_file import IR_VERSION, OPSET, checked_model, model_bytes
from lenet_trt.files import sha256_bytes, write_atomic

MATMUL_DIMS = (600, 200, 8, 1, 64)
CONV_BATCH = 10_000
ACTIVATIONS = {"none": None, "relu": "Relu", "tanh": "Tanh"}
# TensorRT's 32-bit element counts, and the memory of most machines, end here.
MAX_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class MatMulCase:
    """Describe a product: a [d0, d1, d2, d3, d4] x b [d0, 1, d2, d4, 1] -> c [d0, d1, d2, d3, 1]."""

    dims: tuple[int, int, int, int, int] = MATMUL_DIMS
    dynamic: bool = False


@dataclass(frozen=True)
class ConvCase:
    """Describe a layer: images [batch, 1, 28, 28] -> features, with seeded weights; batch None is dynamic."""

    batch: int | None = CONV_BATCH
    filters: int = 50
    kernel: int = 5
    activation: str = "none"
    pool: bool = False
    seed: int = 0

    @property
    def axes(self) -> dict[str, int]:
        """Return the sizes of one image and of the filters, by the axes' names in our convolution kernels."""
        return {**dict(zip("chw", IMAGE_SHAPE, strict=True)), "k": self.filters}


def matmul_onnx(path: Path | str, case: MatMulCase | None = None) -> str:
    """Write the MatMul case to `path` and return its hash: the inputs are `a` and `b`, the output is `c`, all float32.

    Raises: UsageError when the dimensions are not five positive numbers, or make tensors too large.
    """
    return _written(Path(path), matmul_model(case or MatMulCase()))


def conv_onnx(path: Path | str, case: ConvCase | None = None) -> str:
    """Write the Conv case to `path` and return its hash: the input is `images`, the output is `features`, both float32.

    Raises: UsageError when a number is out of range, or the activation is not known.
    """
    return _written(Path(path), conv_model(case or ConvCase()))


def matmul_model(case: MatMulCase) -> onnx.ModelProto:
    """Return the MatMul case as a checked model."""
    if len(case.dims) != 5 or min(case.dims) < 1:
        raise UsageError(f"the MatMul's dimensions are {list(case.dims)}; wanted five positive numbers")
    d0, d1, d2, d3, d4 = case.dims
    shapes = {"a": [d0, d1, d2, d3, d4], "b": [d0, 1, d2, d4, 1], "c": [d0, d1, d2, d3, 1]}
    _check_size("the MatMul", shapes.values())
    if case.dynamic:
        named: dict[str, Sequence[int | str]] = {name: [BATCH, *s[1:]] for name, s in shapes.items()}
    else:
        named = dict(shapes)
    a, b, c = (_tensor(name, shape) for name, shape in named.items())
    return _model("matmul", [helper.make_node("MatMul", ["a", "b"], ["c"], name="matmul")], [a, b], c)


def conv_model(case: ConvCase) -> onnx.ModelProto:
    """Return the Conv case as a checked model."""
    _check_conv(case)
    _, height, width = IMAGE_SHAPE
    out = [case.filters, height - case.kernel + 1, width - case.kernel + 1]
    _check_size("the Conv's output", [[case.batch or 1, *out]])
    steps: list[tuple[str, str, dict[str, Any]]] = [("conv", "Conv", {"kernel_shape": [case.kernel] * 2})]
    activation = ACTIVATIONS[case.activation]
    if activation is not None:
        steps.append((case.activation, activation, {}))
    if case.pool:
        steps.append(("pool", "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}))
        out = [case.filters, out[1] // 2, out[2] // 2]
    nodes, value = [], "images"
    for name, op, attributes in steps:
        inputs = [value, "conv.weight", "conv.bias"] if op == "Conv" else [value]
        value = "features" if name == steps[-1][0] else f"{name}_output"
        nodes.append(helper.make_node(op, inputs, [value], name=name, **attributes))
    batch: int | str = BATCH if case.batch is None else case.batch
    images = _tensor("images", [batch, *IMAGE_SHAPE])
    features = _tensor("features", [batch, *out])
    return _model("conv", nodes, [images], features, conv_weights(case))


def conv_weights(case: ConvCase) -> dict[str, NDArray[np.float32]]:
    """Return the Conv case's weight and bias: uniform within 1 / sqrt(fan-in), from the case's seed."""
    random = np.random.Generator(np.random.PCG64(case.seed))
    channels = IMAGE_SHAPE[0]
    bound = 1 / math.sqrt(channels * case.kernel**2)
    shapes = {
        "conv.weight": (case.filters, channels, case.kernel, case.kernel),
        "conv.bias": (case.filters,),
    }
    return {name: random.uniform(-bound, bound, shape).astype(np.float32) for name, shape in shapes.items()}


def _written(path: Path, model: onnx.ModelProto) -> str:
    """Write a model; hash what was written, since a FIFO cannot be read again."""
    data = model_bytes(model)
    write_atomic(path, data)
    return sha256_bytes(data)


def _check_conv(case: ConvCase) -> None:
    _, height, _ = IMAGE_SHAPE
    if case.batch is not None and case.batch < 1:
        raise UsageError(f"the Conv's batch is {case.batch}; wanted at least 1")
    if not 1 <= case.filters <= 65_536:
        raise UsageError(f"the Conv's filters are {case.filters}; wanted 1 to 65536")
    largest = height - 1 if case.pool else height
    if not 1 <= case.kernel <= largest:
        raise UsageError(f"the Conv's kernel is {case.kernel}; wanted 1 to {largest}")
    if case.activation not in ACTIVATIONS:
        raise UsageError(f"the activation {case.activation!r} is not known; known are {', '.join(ACTIVATIONS)}")
    if case.seed < 0:
        raise UsageError(f"the seed is {case.seed}; wanted at least 0")


def _check_size(what: str, shapes: Iterable[Sequence[int]]) -> None:
    for shape in shapes:
        if math.prod(shape) > MAX_ELEMENTS:
            raise UsageError(
                f"{what} would have a tensor {list(shape)} of {math.prod(shape)} elements; "
                f"wanted at most {MAX_ELEMENTS}: make a dimension smaller"
            )


def _tensor(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _model(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
    initializers: dict[str, NDArray[np.float32]] | None = None,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(value, key) for key, value in (initializers or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, [output], initializer=tensors)
    opsets = [helper.make_opsetid("", OPSET)]
    return checked_model(helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets))
