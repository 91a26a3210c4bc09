"""Add layers in 16 bits one after the other, and compare the model that plugins make of them with the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from plain_runtime import run

ROOT = 1.4140625  # of two, in fp16
MOST_ERROR = 2e-3
OPEN_BATCH = 3  # images, or sequences, with which a model with an open batch is run


class LayeredModel:
    """Hold the nodes that read images or sequences x [n, channels, ...], and the channels of the last layer."""

    def __init__(
        self, n: int | str, channels: int, *sizes: int, opset: int = 17, dtype: int = TensorProto.FLOAT16
    ) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.x = [n, channels, *sizes]
        self.channels, self.opset, self.dtype = channels, opset, dtype

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, *shape: int) -> str:
        """Add weights."""
        name = f"constant{len(self.constants)}"
        numbers = np.random.default_rng(len(self.constants)).normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        self.constants[name] = numbers.astype(helper.tensor_dtype_to_np_dtype(self.dtype))
        return name

    def number(self, value: float) -> str:
        """Add a scalar."""
        name = f"number{value}"
        self.constants[name] = np.array(value, helper.tensor_dtype_to_np_dtype(self.dtype))
        return name

    def conv(self, x: str, filters: int, *size: int, group: int = 1, bias: bool = True, **more: Any) -> str:
        """Add a convolution, whose attributes are those of ONNX."""
        weights = [self.constant(filters, self.channels // group, *size)] + ([self.constant(filters)] if bias else [])
        self.channels = filters
        sizes = {"kernel_shape": size, **({"group": group} if group > 1 else {}), **more}
        return self.node("Conv", x, *weights, **sizes)

    def gelu(self, x: str) -> str:
        """Add GELU as torch's exporters write it."""
        if self.opset >= 20:
            return self.node("Gelu", x)
        erf = self.node("Erf", self.node("Div", x, self.number(ROOT)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.number(1.0))), self.number(0.5))

    def activation(self, name: str, x: str) -> str:
        """Add an activation, by the name that plugins have for it."""
        if name == "none":
            return x
        if name == "relu6":
            return self.node("Clip", x, self.number(0.0), self.number(6.0))
        if name == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        if name == "gelu":
            return self.gelu(x)
        if name == "gelu_tanh":
            return self.node("Gelu", x, approximate="tanh")
        return self.node({"relu": "Relu", "hardswish": "HardSwish"}[name], x)

    def finished(self, *outputs: str) -> onnx.ModelProto:
        """Return the model."""
        x = helper.make_tensor_value_info("x", self.dtype, self.x)
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "layers", [x], results, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def fused_like_plain(model: onnx.ModelProto, *names: str, architectures: Sequence[int] = (90,)) -> onnx.ModelProto:
    """Return the model with the plugins of these names, or with those that ``auto`` takes; it computes the same."""
    fused = fuse(model, names or "auto", architectures).model
    onnx.checker.check_model(fused, full_check=True)
    shape = [dim.dim_value or OPEN_BATCH for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float16)
    for seen, wanted in zip(run(fused, x), run(model, x), strict=True):
        assert seen.shape == wanted.shape
        assert relative_error(seen, wanted.astype(np.float64)) < MOST_ERROR
    return fused


def operators_of(model: onnx.ModelProto) -> list[str]:
    """Return the operators of a model, plugins among them."""
    return [node.op_type for node in model.graph.node]
