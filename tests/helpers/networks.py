"""Small convolutional networks as ONNX, in the dialects that exporters write: for tests of fusing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.export import geometry

FLATTENINGS = ("flatten", "constant", "zero", "gather", "slice", "shape_part", "tf2onnx")
DENSES = ("gemm", "gemm_plain", "matmul_add", "add_matmul")


@dataclass(frozen=True)
class Dialect:
    """How an exporter writes each kind of layer."""

    dense: str = "gemm"
    flatten: str = "flatten"
    bias: bool = True
    constant_nodes: bool = False
    bias_added: bool = False
    pool_first: bool = False
    identities: bool = False
    auto_pad: bool = False
    explicit_defaults: bool = True
    channels_last: bool = False


@dataclass(frozen=True)
class Network:
    """Convolutions (5x5, then an activation, then maybe 2x2 pooling) and dense layers."""

    channels: int = 1
    height: int = 16
    width: int = 18
    convolutions: tuple[tuple[int, str, bool], ...] = ((3, "Relu", True),)
    denses: tuple[tuple[int, bool], ...] = ((7, True), (4, False))
    dialect: Dialect = field(default_factory=Dialect)
    opset: int = 17
    seed: int = 0


_DENSES = [layer.out_features for layer in geometry.LENET5 if isinstance(layer, geometry.Linear)]
LENET5 = Network(
    *geometry.IMAGE_SHAPE,
    convolutions=tuple(
        (conv.out_channels, "Relu", True) for conv in geometry.LENET5 if isinstance(conv, geometry.Conv)
    ),
    denses=tuple((out, out != _DENSES[-1]) for out in _DENSES),
)

dialects = st.builds(
    Dialect,
    dense=st.sampled_from(DENSES),
    flatten=st.sampled_from(FLATTENINGS),
    bias=st.booleans(),
    constant_nodes=st.booleans(),
    bias_added=st.booleans(),
    pool_first=st.booleans(),
    identities=st.booleans(),
    auto_pad=st.booleans(),
    explicit_defaults=st.booleans(),
    channels_last=st.booleans(),
)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Any network of this family whose sizes work out."""
    layers = draw(
        st.lists(
            st.tuples(st.integers(1, 4), st.sampled_from(["Relu", "Tanh", ""]), st.booleans()), min_size=1, max_size=2
        )
    )
    denses = draw(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=3))
    return Network(
        channels=draw(st.integers(1, 3)),
        height=draw(st.integers(16, 22)),
        width=draw(st.integers(16, 22)),
        convolutions=tuple(layers),
        denses=tuple(denses),
        dialect=draw(dialects),
        opset=draw(st.sampled_from([13, 17, 21])),
        seed=draw(st.integers(0, 99)),
    )


def model_of(network: Network) -> onnx.ModelProto:
    """Write the network as its dialect has it; input ``x`` [n, c, h, w], output ``y``."""
    return _Writer(network).model()


def images_for(model: onnx.ModelProto, count: int, seed: int = 0) -> np.ndarray:
    """Random input for the model, ``count`` of them."""
    sizes = [entry.dim_value for entry in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(seed).normal(size=(count, *sizes[1:])).astype(np.float32)


def in_dialect(network: Network, **choices: Any) -> Network:
    """The same network, written otherwise."""
    return replace(network, dialect=replace(network.dialect, **choices))


class _Writer:
    def __init__(self, network: Network) -> None:
        self.network, self.dialect = network, network.dialect
        self.random = np.random.default_rng(network.seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.count = 0

    def model(self) -> onnx.ModelProto:
        net = self.network
        value, shape = "x", (net.channels, net.height, net.width)
        for out, activation, pooled in net.convolutions:
            value, shape = self.convolution(value, shape, out, activation, pooled)
        result: list[int | str] = ["n", *shape]
        if net.denses:
            value = self.flatten(value, shape)
            size = shape[0] * shape[1] * shape[2]
            for out, relu in net.denses:
                value = self.dense(value, size, out, relu)
                size = out
            result = ["n", size]
        self.nodes.append(helper.make_node("Identity", [value], ["y"], name="last"))
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", net.channels, net.height, net.width])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        self.count += 1
        output = f"v{self.count}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"n{self.count}", **attributes))
        return output

    def between(self, value: str) -> str:
        return self.add("Identity", value) if self.dialect.identities else value

    def constant(self, array: np.ndarray) -> str:
        tensor = numpy_helper.from_array(np.asarray(array, order="C"))
        if self.dialect.constant_nodes:
            return self.add("Constant", value=tensor)
        self.count += 1
        tensor.name = f"w{self.count}"
        self.initializers.append(tensor)
        return tensor.name

    def weight(self, *shape: int) -> np.ndarray:
        return (self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    def convolution(
        self, value: str, shape: tuple[int, int, int], out: int, activation: str, pooled: bool
    ) -> tuple[str, tuple[int, int, int]]:
        said = {"kernel_shape": [5, 5]}
        if self.dialect.explicit_defaults:
            said |= {"strides": [1, 1], "dilations": [1, 1], "group": 1}
        if self.dialect.auto_pad:
            said |= {"auto_pad": "VALID"}
        elif self.dialect.explicit_defaults:
            said |= {"pads": [0, 0, 0, 0]}
        bias = self.random.normal(size=out).astype(np.float32) if self.dialect.bias else None
        inputs = [value, self.constant(self.weight(out, shape[0], 5, 5))]
        if bias is not None and not self.dialect.bias_added:
            inputs.append(self.constant(bias))
        value = self.add("Conv", *inputs, **said)
        if bias is not None and self.dialect.bias_added:
            value = self.add("Add", value, self.constant(bias.reshape(1, -1, 1, 1)))
        height, width = shape[1] - 4, shape[2] - 4
        order = ["activation", "pool"] if not self.dialect.pool_first else ["pool", "activation"]
        for step in order:
            if step == "activation" and activation:
                value = self.add(activation, self.between(value))
            elif step == "pool" and pooled and height >= 2 and width >= 2:
                value = self.add("MaxPool", self.between(value), kernel_shape=[2, 2], strides=[2, 2])
                height, width = height // 2, width // 2
        return value, (out, height, width)

    def flatten(self, value: str, shape: tuple[int, int, int]) -> str:
        features = int(np.prod(shape))
        kind = self.dialect.flatten
        if self.dialect.channels_last:
            value = self.add("Transpose", value, perm=[0, 2, 3, 1])
        if kind == "flatten":
            return self.add("Flatten", value, axis=1)
        if kind in ("constant", "zero"):
            target = [-1, features] if kind == "constant" else [0, -1]
            return self.add("Reshape", value, self.constant(np.array(target, dtype=np.int64)))
        return self.add("Reshape", value, self.target(value, features))

    def target(self, value: str, features: int) -> str:
        """[batch, rest], computed from the shape."""
        ints = lambda *numbers: self.constant(np.array(numbers, dtype=np.int64))  # noqa: E731
        kind = self.dialect.flatten
        if kind == "shape_part" and self.network.opset >= 15:
            batch = self.add("Shape", value, start=0, end=1)
        elif kind == "gather":
            first = self.add("Gather", self.add("Shape", value), self.constant(np.array(0, dtype=np.int64)), axis=0)
            batch = self.add("Unsqueeze", first, ints(0))
        elif kind == "tf2onnx":
            picked = self.add("Gather", self.add("Shape", value), ints(0, 2, 3, 1))
            batch = self.add("Slice", self.add("Cast", picked, to=TensorProto.INT32), ints(0), ints(1), ints(0))
            rest = self.constant(np.array([features], dtype=np.int32))
            return self.add("Cast", self.add("Concat", batch, rest, axis=0), to=TensorProto.INT64)
        else:
            batch = self.add("Slice", self.add("Shape", value), ints(0), ints(1), ints(0))
        return self.add("Concat", batch, ints(-1), axis=0)

    def dense(self, value: str, size: int, out: int, relu: bool) -> str:
        weight = self.weight(out, size)
        bias = self.random.normal(size=out).astype(np.float32) if self.dialect.bias else None
        kind = self.dialect.dense
        if kind.startswith("gemm"):
            transposed = kind == "gemm"
            inputs = [value, self.constant(weight if transposed else weight.T)]
            inputs += [] if bias is None else [self.constant(bias)]
            value = self.add("Gemm", *inputs, **({"transB": 1} if transposed else {}))
        else:
            value = self.add("MatMul", value, self.constant(weight.T))
            if bias is not None:
                other = self.constant(bias)
                value = self.add("Add", *((value, other) if kind == "matmul_add" else (other, value)))
        return self.add("Relu", self.between(value)) if relu else value


# A linear classifier of small RGB images, of more classes than a table shows.
SHAPE = (3, 6, 4)
CLASSES = 30
WEIGHT = np.random.default_rng(2).standard_normal((int(np.prod(SHAPE)), CLASSES)).astype(np.float32)


def colour_model(path: Path, shape: tuple[int | str, ...] = ("n", *SHAPE), weight: np.ndarray = WEIGHT) -> Path:
    """A linear classifier of RGB images."""
    flat = len(weight)
    nodes = [
        helper.make_node("Reshape", ["images", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["logits"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([-1, flat]), "shape"),
        numpy_helper.from_array(weight, "weight"),
    ]
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [shape[0], CLASSES])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path
