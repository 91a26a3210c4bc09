"""Transposed convolutions in 16 bits: where the channels-last kernel is taken, and where TensorRT's own layers stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

NAME = "transposed_conv2x2_half"
IMAGES = {"n": 2, "side": 6}
MUCH = {"n": 32, "side": 64}


def model_of(
    *nodes: onnx.NodeProto, channels: int = 8, planes: int = 24, n: int = 2, side: int = 6, group: int = 1
) -> onnx.ModelProto:
    """Return a model of these nodes, from images x to z; w and b are a transposed convolution's weights."""
    random = np.random.default_rng(2)
    shapes = {"w": (channels, planes // group, 2, 2), "b": (planes,)}
    tensors = [
        numpy_helper.from_array((random.normal(size=shape) / 8).astype(np.float16), name)
        for name, shape in shapes.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [n, channels, side, side + 1])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT16, list("nkhw"))
    graph = helper.make_graph(nodes, "g", [x], [z], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def doubled(output: str, **changed: Any) -> onnx.NodeProto:
    """Return a transposed convolution of x that the kernel takes, but for what is changed."""
    return helper.make_node("ConvTranspose", ["x", "w", "b"], [output], **{"strides": [2, 2], **changed})


def taken(model: onnx.ModelProto, *names: str) -> Counter[str]:
    """Return the plugins that are taken, by name or by themselves; the results are those of the plain model."""
    fused = fuse(model, names or "auto", architectures=[90]).model
    sizes = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(3).normal(size=sizes).astype(np.float16)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=4e-3)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("activation", [None, "Relu"])
@pytest.mark.parametrize("channels", [8, 72])
def test_a_layer_is_one_kernel_with_what_follows(activation: str | None, channels: int) -> None:
    after = [helper.make_node(activation, ["a"], ["z"])] if activation else []
    model = model_of(doubled("a" if activation else "z"), *after, channels=channels)
    assert taken(model, NAME) == {NAME: 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"pads": [1, 1, 1, 1]},
        {"strides": [1, 1]},
        {"strides": [2, 1]},
        {"output_padding": [1, 1]},
        {"dilations": [2, 2]},
        {"group": 2},
    ],
    ids=str,
)
def test_another_layer_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{NAME}: the network has no place for it"):
        taken(model_of(doubled("z", **changed), group=int(changed.get("group", 1))), NAME)


@pytest.mark.parametrize(("channels", "planes", "which"), [(12, 24, "c"), (8, 20, "k")])
def test_numbers_that_8_does_not_divide_are_no_place(channels: int, planes: int, which: str) -> None:
    with pytest.raises(LenetTrtError, match=f"{which} is a multiple of 8"):
        taken(model_of(doubled("z"), channels=channels, planes=planes), NAME)


def test_by_itself_it_is_taken_for_much_data() -> None:
    relu = helper.make_node("Relu", ["a"], ["z"])
    assert taken(model_of(doubled("a"), relu, **MUCH)) == {NAME: 1}
    assert taken(model_of(doubled("a"), relu, **IMAGES)) == {}


@pytest.mark.parametrize(("layers", "counts"), [(3, {NAME: 3}), (2, {})])
def test_three_of_them_are_taken_for_any_data(layers: int, counts: dict[str, int]) -> None:
    names = ["x", *(f"a{i}" for i in range(layers - 1)), "z"]
    nodes = [
        helper.make_node("ConvTranspose", [names[i], "w", "b"], [names[i + 1]], strides=[2, 2]) for i in range(layers)
    ]
    assert taken(model_of(*nodes, channels=64, planes=64)) == counts
    assert taken(model_of(*nodes, channels=8, planes=8)) == {}


def test_before_a_concatenation_tensorrt_keeps_the_layer() -> None:
    """TensorRT writes into the concatenation, and what a plugin writes would be copied there."""
    nodes = [
        doubled("a"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Concat", ["a", "r"], ["z"], axis=1),
    ]
    assert taken(model_of(*nodes, **MUCH)) == {}
    assert taken(model_of(*nodes, **MUCH), NAME) == {NAME: 1}
