"""Fusing leaves what TensorRT runs quantized: nodes between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import Fused, fuse
from lenet_trt.kernel import Tensor, Types, registry
from lenet_trt.kernel.pattern import DOMAIN, Pattern


def network(*steps: str, opset: int = 17) -> onnx.ModelProto:
    """The steps in a row, from ``x`` [n, 2, 12, 12]: an operator's name, or ``quantize`` for a Q/DQ pair."""
    random = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(0, np.int8),
        "w": (random.normal(size=(3, 2, 5, 5)) / 7).astype(np.float32),
        "b": random.normal(size=3).astype(np.float32),
        "wq": random.integers(-99, 99, (3, 2, 5, 5)).astype(np.int8),
        "scales": np.full(3, 0.01, np.float32),
        "zeros": np.zeros(3, np.int8),
        "v": random.normal(size=(48, 4)).astype(np.float32),
        "c": random.normal(size=4).astype(np.float32),
        "flat": np.array([0, -1], np.int64),
    }
    nodes: list[onnx.NodeProto] = []
    value = "x"

    def add(op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type}{len(nodes)}"
        nodes.append(helper.make_node(op_type, inputs, [f"{name}.out"], name=name, **attributes))
        return f"{name}.out"

    for step in steps:
        if step == "quantize":
            value = add("DequantizeLinear", add("QuantizeLinear", value, "scale", "zero"), "scale", "zero")
        elif step == "Conv":
            value = add("Conv", value, "w", "b", kernel_shape=[5, 5])
        elif step == "ConvQuantized":
            value = add("Conv", value, add("DequantizeLinear", "wq", "scales", "zeros", axis=0), "b")
        elif step == "MaxPool":
            value = add("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
        elif step == "Gemm":
            value = add("Gemm", value, "v", "c")
        elif step == "Reshape":
            value = add("Reshape", value, "flat")
        else:
            value = add(step, value)
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 12, 12])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items() if name in read],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    return model


def used(fused: Fused) -> list[str]:
    return [node.op_type for node in fused.model.graph.node if node.domain == DOMAIN]


@pytest.mark.parametrize(
    "steps",
    [
        ("quantize", "Conv", "Relu", "MaxPool", "quantize"),
        ("quantize", "Conv", "Relu"),
        ("Conv", "Relu", "MaxPool", "quantize"),
        ("quantize", "MaxPool", "quantize"),
        ("quantize", "ConvQuantized", "Relu", "quantize"),
    ],
)
def test_nothing_between_q_and_dq_becomes_a_plugin(steps: tuple[str, ...]) -> None:
    fused = fuse(network(*steps))
    assert used(fused) == []
    assert fused.refusals


def test_a_kernel_of_8_bits_stands_between_them_for_sizes_that_it_claims() -> None:
    steps = ("quantize", "ConvQuantized", "Relu", "MaxPool", "quantize")
    assert used(fuse(network(*steps))) == ["conv_int8"]
    without_pool = [step for step in steps if step != "MaxPool"]
    assert used(fuse(network(*without_pool), "conv_int8")) == ["conv_int8"]


def test_values_that_only_move_do_not_hide_the_quantization() -> None:
    fused = fuse(network("Conv", "Relu", "MaxPool", "Reshape", "quantize", "Gemm"))
    assert used(fused) == []
    fused = fuse(network("quantize", "Transpose", "Transpose", "Conv", "Tanh"))
    assert used(fused) == []


def test_what_lies_outside_the_pairs_is_still_replaced() -> None:
    fused = fuse(network("Conv", "Tanh", "MaxPool", "Sigmoid", "quantize", "Flatten", "Sigmoid", "Gemm", "Relu"))
    assert used(fused) == ["conv5x5_bias", "maxpool2", "dense_bias_relu"]


def test_the_refusal_says_which_node_quantizes_and_what_the_kernel_has() -> None:
    before = network("quantize", "MaxPool", "Sigmoid")
    with pytest.raises(LenetTrtError, match=r"comes from DequantizeLinear DequantizeLinear1.*int8.*maxpool2.*fp32"):
        fuse(before, "maxpool2")
    after = network("MaxPool", "quantize")
    with pytest.raises(LenetTrtError, match=r"goes to QuantizeLinear QuantizeLinear1.*int8.*maxpool2.*fp32"):
        fuse(after, "maxpool2")
    weights = network("ConvQuantized", "Sigmoid")
    with pytest.raises(LenetTrtError, match=r"comes from DequantizeLinear DequantizeLinear0"):
        fuse(weights, "conv5x5_bias")


def test_a_kernel_that_takes_int8_itself_may_feed_quantizelinear() -> None:
    pool = registry.kernel("maxpool2")

    def graph(op: Any, x: Any, scale: Any) -> Any:  # a zero point of 0 is gone in the normal form
        return op.DequantizeLinear(op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]), scale)

    int8 = replace(
        pool,
        inputs=(*pool.inputs, Tensor("scale", (), "float32", "scale")),
        outputs=(replace(pool.outputs[0], dtype="float32"),),
        types=(Types("int8", {"T": "int8"}, tolerance=0.0),),
        patterns=(Pattern(graph),),
    )
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="q"),
        helper.make_node("MaxPool", ["q"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("DequantizeLinear", ["p", "scale", "zero"], ["d"], name="dq"),
        helper.make_node("QuantizeLinear", ["d", "scale", "zero"], ["y"], name="again"),
    ]
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, ["n", 2, 6, 6])],
    )
    constants = [
        numpy_helper.from_array(np.array(0.1, np.float32), "scale"),
        numpy_helper.from_array(np.array(0, np.int8), "zero"),
    ]
    graph_proto = helper.make_graph(nodes, "int8", *ends, constants)
    model = helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    fused = fuse(model, [int8])
    assert used(fused) == ["maxpool2"]
    assert fused.replacements[0].types == "int8"
