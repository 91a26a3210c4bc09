"""Nodes of one kernel with different attributes: its ONNX function chooses, and each runtime sees all branches."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from plain_runtime import run

CHANNELS = 16
X, OTHER = (2, CHANNELS, 9, 12), (2, CHANNELS, 5, 6)


def residual_connections(opset: int) -> onnx.ModelProto:
    """A convolution of stride 2 and one of stride 1; to each something is added, which has the size of its result."""
    random = np.random.default_rng(2)

    def weights(name: str, size: int) -> list[onnx.TensorProto]:
        shapes = {f"{name}_w": (CHANNELS, CHANNELS, size, size), f"{name}_bias": (CHANNELS,)}
        return [
            numpy_helper.from_array(random.normal(size=shape).astype(np.float32) / 8, each)
            for each, shape in shapes.items()
        ]

    nodes = [
        helper.make_node("Conv", ["x", "a_w", "a_bias"], ["a"], strides=[2, 2]),
        helper.make_node("Add", ["a", "other"], ["a_sum"]),
        helper.make_node("Relu", ["a_sum"], ["half"]),
        helper.make_node("Conv", ["half", "b_w", "b_bias"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "half"], ["b_sum"]),
        helper.make_node("Relu", ["b_sum"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", X), ("other", OTHER))]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, OTHER)
    graph = helper.make_graph(nodes, "g", ports, [result], [*weights("a", 1), *weights("b", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 17])
def test_what_is_added_fits_one_stride_alone(opset: int) -> None:
    model = residual_connections(opset)
    fused = fuse(model, ["many_channel_conv_add"]).model
    assert [node.op_type for node in fused.graph.node] == ["many_channel_conv_add"] * 2
    random = np.random.default_rng(3)
    inputs = [random.normal(size=shape).astype(np.float32) for shape in (X, OTHER)]
    np.testing.assert_allclose(run(fused, *inputs)[0], run(model, *inputs)[0], rtol=0, atol=1e-5)
