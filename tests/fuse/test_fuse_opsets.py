"""Fused files of every opset from 7 on are valid, run in ONNX Runtime, and compute what the plain file computes."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import Attribute, registry
from lenet_trt.kernel.pattern import DOMAIN, Pattern
from plain_runtime import run

OPSETS = range(7, 24)
SOME = settings(max_examples=40)
# The newest version of the format that was there when the opset came; the first that has functions is 8.
IR_VERSIONS = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7}


@dataclass(frozen=True)
class Small:
    """Conv, activation, pooling, flattening and dense layers, written as exporters of that opset wrote them."""

    opset: int = 11
    flatten: str = "view"
    denses: tuple[bool, ...] = (True, False)
    convolution: str = "Relu"
    pooled: bool = True
    constant_nodes: bool = False
    cast_weight: bool = False

    def model(self) -> onnx.ModelProto:
        """Write it: ``x`` [n, 1, 10, 11] to ``y``."""
        return _Writer(self).model()


class _Writer:
    def __init__(self, small: Small) -> None:
        self.small = small
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"n{len(self.nodes)}", **attributes))
        return output

    def constant(self, array: Any) -> str:
        tensor = numpy_helper.from_array(np.asarray(array, order="C"), f"w{len(self.tensors)}")
        if self.small.constant_nodes and (self.small.opset >= 9 or np.asarray(array).dtype.kind == "f"):
            return self.add("Constant", value=tensor)
        self.tensors.append(tensor)
        return tensor.name

    def weight(self, *shape: int) -> str:
        values = (self.random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        if self.small.cast_weight:
            return self.add("Cast", self.constant(values.astype(np.float64)), to=TensorProto.FLOAT)
        return self.constant(values)

    def unsqueezed(self, value: str) -> str:
        if self.small.opset < 13:
            return self.add("Unsqueeze", value, axes=[0])
        return self.add("Unsqueeze", value, self.constant(np.array([0], np.int64)))

    def flattened(self, value: str, features: int) -> str:
        ints = lambda *numbers: self.constant(np.array(numbers, np.int64))  # noqa: E731
        kind = self.small.flatten
        if kind == "Flatten":
            return self.add("Flatten", value)
        if kind == "constant":
            return self.add("Reshape", value, ints(-1, features))
        if kind == "view":  # x.view(x.size(0), -1), as torch's TorchScript exporter writes it
            size = self.add("Gather", self.add("Shape", value), self.constant(np.array(0, np.int64)), axis=0)
            parts = [self.unsqueezed(size), self.unsqueezed(self.constant(np.array(-1, np.int64)))]
        elif self.small.opset < 10:
            parts = [self.add("Slice", self.add("Shape", value), axes=[0], starts=[0], ends=[1]), ints(-1)]
        else:
            parts = [self.add("Slice", self.add("Shape", value), ints(0), ints(1), ints(0)), ints(features)]
        return self.add("Reshape", value, self.add("Concat", *parts, axis=0))

    def model(self) -> onnx.ModelProto:
        small = self.small
        value = self.add("Conv", "x", self.weight(3, 1, 5, 5), self.weight(3), kernel_shape=[5, 5])
        features, shape = 3 * 6 * 7, ["n", 3, 6, 7]
        if small.convolution:
            value = self.add(small.convolution, value)
        if small.pooled:
            value = self.add("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
            features, shape = 3 * 3 * 3, ["n", 3, 3, 3]
        if small.denses:
            value = self.flattened(value, features)
            for relu in small.denses:
                value = self.add("Gemm", value, self.weight(5, features), self.weight(5), transB=1)
                value = self.add("Relu", value) if relu else value
                features, shape = 5, ["n", 5]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 10, 11])]
        ir_version = IR_VERSIONS.get(small.opset, 8)
        if ir_version < 4:  # where every initializer has to be an input as well
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.tensors]
        output = helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
        model = helper.make_model(
            helper.make_graph(self.nodes, "small", inputs, [output], self.tensors),
            opset_imports=[helper.make_opsetid("", small.opset)],
            ir_version=ir_version,
        )
        onnx.checker.check_model(model, full_check=True)
        return model


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, 1, 10, 11)).astype(np.float32)


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def assert_same(fused: onnx.ModelProto, model: onnx.ModelProto) -> None:
    onnx.checker.check_model(fused, full_check=True)
    for count in (1, 3):
        (seen,), (wanted,) = run(fused, x=images(count)), run(model, x=images(count))
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-6)


smalls = st.builds(
    Small,
    opset=st.sampled_from(OPSETS),
    flatten=st.sampled_from(["Flatten", "constant", "view", "slice"]),
    denses=st.sampled_from([(), (True,), (False,), (True, False), (False, True, False)]),
    convolution=st.sampled_from(["", "Relu", "Tanh"]),
    pooled=st.booleans(),
    constant_nodes=st.booleans(),
    cast_weight=st.booleans(),
)


@pytest.mark.parametrize("opset", OPSETS)
def test_a_layer_with_relu_and_one_without_in_every_opset(opset: int) -> None:
    model = Small(opset).model()
    fused = fuse(model).model
    assert used(fused) == ["conv5x5_bias_relu_pool2", "dense_bias_relu", "dense_bias_relu"]
    assert_same(fused, model)
    (seen,) = ReferenceEvaluator(fused).run(None, {"x": images(2)})
    (wanted,) = run(model, x=images(2))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
@SOME
@given(smalls)
def test_any_small_network_in_any_opset_computes_the_same_when_fused(small: Small) -> None:
    model = small.model()
    fused = fuse(model)
    assert used(fused.model).count("dense_bias_relu") == len(small.denses)
    assert sum(name.startswith("conv5x5") for name in used(fused.model)) == 1
    assert_same(fused.model, model)
    again = fuse(fused.model)
    assert again.replacements == ()
    assert again.model.SerializeToString() == fused.model.SerializeToString()


def test_weights_of_old_files_are_no_inputs_of_the_fused_one() -> None:
    """Before version 4 of the format every initializer was listed as an input, and none could be overridden."""
    model = Small(7).model()
    assert len(model.graph.input) > 1
    fused = fuse(model, "conv5x5_bias").model
    assert [value.name for value in fused.graph.input] == ["x"]
    assert used(fuse(fused).model).count("dense_bias_relu") == 2


def test_three_choices_in_an_old_opset() -> None:
    """none, relu and tanh of one kernel, each with a body of its own."""
    one = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 13, 14])
    random = np.random.default_rng(0)
    tensors = [numpy_helper.from_array(random.normal(size=(1, 1, 5, 5)).astype(np.float32) / 5, "w")]
    nodes, value = [], "x"
    for activation in ("", "Relu", "Tanh"):
        nodes.append(helper.make_node("Conv", [value, "w"], [f"{activation}c"], kernel_shape=[5, 5]))
        value = f"{activation}c"
        if activation:
            nodes.append(helper.make_node(activation, [value], [f"{activation}a"]))
            value = f"{activation}a"
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", 1, 1, 2])
    graph = helper.make_graph(nodes, "three", [one], [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    fused = fuse(model).model
    assert used(fused) == ["conv5x5_bias"] * 3
    values = random.normal(size=(2, 1, 13, 14)).astype(np.float32)
    (seen,), (wanted,) = run(fused, x=values), run(model, x=values)
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-6)


def test_choices_that_an_old_opset_cannot_tell_apart_are_refused() -> None:
    dense = registry.kernel("dense_bias_relu")
    attribute = Attribute("relu", (0, 1000), "too large for a shape")
    patterns = tuple(
        Pattern(pattern.graph, {"relu": 1000 if pattern.attributes["relu"] else 0}) for pattern in dense.patterns
    )
    large = replace(dense, attributes=(attribute,), patterns=patterns)
    assert used(fuse(Small(12).model(), [large]).model) == ["dense_bias_relu"] * 2
    with pytest.raises(LenetTrtError, match=r"relu is 1000.*opset 11.*convert the model to opset 12"):
        fuse(Small(11).model(), [large])


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 17])
def test_what_torchscripts_exporter_writes_for_view(opset: int) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 3, 5)
            self.first, self.second = torch.nn.Linear(27, 7), torch.nn.Linear(7, 5)

        def forward(self, x: Any) -> Any:
            x = torch.nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
            x = x.view(x.size(0), -1)
            return self.second(torch.relu(self.first(x)))

    torch.manual_seed(0)
    file = io.BytesIO()
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Net().eval(), torch.zeros(2, 1, 10, 11), file, opset_version=opset, dynamo=False, **names)
    model = onnx.load_from_string(file.getvalue())
    fused = fuse(model).model
    assert used(fused) == ["conv5x5_bias_relu_pool2", "dense_bias_relu", "dense_bias_relu"]
    assert_same(fused, model)
