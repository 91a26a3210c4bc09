"""3x3 convolutions in 16 bits: where the channels-last kernels are taken, and where TensorRT's own layers stay."""

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

CONV, ADD, CONCAT = "conv3x3_half", "conv3x3_half_add", "conv3x3_half_concat"
CHANNELS, FILTERS = 8, 16


def model_of(*nodes: onnx.NodeProto, side: int = 6, filters: int = FILTERS, group: int = 1) -> onnx.ModelProto:
    """Return a model of these nodes, from images x and y to z.

    w and b are a convolution's weights; w2 is of one of images with the filters' channels twice.
    """
    random = np.random.default_rng(2)
    shapes = {"w": (filters, CHANNELS // group, 3, 3), "b": (filters,), "w2": (filters, 2 * filters, 3, 3)}
    tensors = [
        numpy_helper.from_array((random.normal(size=shape) / 8).astype(np.float16), name)
        for name, shape in shapes.items()
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, CHANNELS, side, side]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, filters, side, side]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT16, list("nkhw")),
    ]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(output: str, **changed: Any) -> onnx.NodeProto:
    """Return a convolution of x that the kernels take, but for what is changed."""
    return helper.make_node("Conv", ["x", "w", "b"], [output], **{"kernel_shape": [3, 3], "pads": [1] * 4, **changed})


def conv_relu(output: str, x: str = "x", w: str = "w") -> list[onnx.NodeProto]:
    """Return a convolution and its ReLU."""
    conv = helper.make_node("Conv", [x, w, "b"], [f"{output}c"], kernel_shape=[3, 3], pads=[1] * 4)
    return [conv, helper.make_node("Relu", [f"{output}c"], [output])]


def concat(output: str, *inputs: str, axis: int = 1) -> onnx.NodeProto:
    """Return a concatenation, of channels where nothing else is said."""
    return helper.make_node("Concat", inputs, [output], axis=axis)


def taken(model: onnx.ModelProto, *names: str) -> Counter[str]:
    """Return the plugins that are taken, by name or by themselves; the results are those of the plain model."""
    fused = fuse(model, names or "auto", architectures=[90]).model
    rng = np.random.default_rng(3)
    inputs = [
        rng.normal(size=[d.dim_value for d in port.type.tensor_type.shape.dim]).astype(np.float16)
        for port in model.graph.input
    ]
    np.testing.assert_allclose(run(fused, *inputs)[0], run(model, *inputs)[0], rtol=0, atol=2e-2)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("activation", [None, "Relu"])
@pytest.mark.parametrize("conv_first", [True, False])
def test_a_convolution_is_one_kernel_with_what_follows(activation: str | None, conv_first: bool) -> None:
    added = ["c", "y"] if conv_first else ["y", "c"]
    last = "a" if activation else "z"
    after = [helper.make_node(activation, ["a"], ["z"])] if activation else []
    assert taken(model_of(conv("c"), helper.make_node("Add", added, [last]), *after), ADD) == {ADD: 1}
    assert taken(model_of(conv(last), *after), CONV) == {CONV: 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"pads": [0] * 4},
        {"pads": [2] * 4},
        {"pads": [1, 1, 0, 1]},
        {"strides": [2, 2]},
        {"strides": [1, 2]},
        {"dilations": [2, 2]},
        {"group": 2},
    ],
    ids=str,
)
def test_another_convolution_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{CONV}: the network has no place for it"):
        taken(model_of(conv("z", **changed), group=int(changed.get("group", 1))), CONV)


def test_filters_that_8_does_not_divide_are_taken_where_nothing_is_added() -> None:
    assert taken(model_of(conv("z"), filters=12), CONV) == {CONV: 1}
    with pytest.raises(LenetTrtError, match=f"{ADD}.*k is a multiple of 8"):
        taken(model_of(conv("c"), helper.make_node("Add", ["c", "y"], ["z"]), filters=12), ADD)


def test_by_themselves_they_are_taken_on_very_many_pixels() -> None:
    assert taken(model_of(conv("z"), side=64, filters=12)) == {}
    assert taken(model_of(conv("z"), side=364, filters=12)) == {CONV: 1}


def test_by_themselves_they_are_taken_for_large_images() -> None:
    relu = helper.make_node("Relu", ["c"], ["z"])
    assert taken(model_of(conv("c"), relu, side=64)) == {CONV: 1}
    assert taken(model_of(conv("c"), relu, side=32)) == {}


def test_before_a_concatenation_tensorrt_keeps_the_layer_whole() -> None:
    """TensorRT writes into the concatenation; and it computes a ReLU with the convolution, so neither part is taken."""
    nodes = [*conv_relu("r"), concat("z", "r", "y")]
    assert taken(model_of(*nodes, side=64)) == {}
    assert taken(model_of(*nodes, side=64), CONV) == {CONV: 1}


def test_what_is_left_before_a_concatenation_is_told_once() -> None:
    refusals = fuse(model_of(*conv_relu("r"), concat("z", "r", "y"), side=64), "auto", architectures=[90]).refusals
    assert [refusal.kernel for refusal in refusals if "r would be copied" in refusal.reason] == [CONV]


@pytest.mark.parametrize("operands", [("y", "r"), ("r", "y")])
def test_a_concatenation_is_one_kernel_with_its_convolution(operands: tuple[str, str]) -> None:
    nodes = [*conv_relu("r"), concat("j", *operands), *conv_relu("z", "j", "w2")]
    assert taken(model_of(*nodes), CONCAT) == {CONCAT: 1}


def test_where_the_concatenation_is_replaced_too_nothing_is_copied() -> None:
    nodes = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("z", "j", "w2")]
    assert taken(model_of(*nodes, side=64)) == {CONV: 1, CONCAT: 1}


def test_of_two_concatenations_both_must_be_replaced() -> None:
    """The second one stays: what the first one's convolution gives would be copied, so both layers stay."""
    nodes = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("q", "j", "w2"), concat("z", "q", "y")]
    assert taken(model_of(*nodes, side=64)) == {}
    others = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("q", "j", "w2"), concat("s", "q", "r")]
    assert taken(model_of(*others, *conv_relu("z", "s", "w2"), side=64)) == {CONV: 1, CONCAT: 2}


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([concat("j", "x", "x", axis=2), *conv_relu("z", "j", "w")], id="another axis"),
        pytest.param([concat("j", "x", "x", "x", "x"), *conv_relu("z", "j", "w2")], id="four tensors"),
        pytest.param(
            [concat("j", "y", "y"), *conv_relu("q", "j", "w2"), concat("z", "q", "j")], id="another reader of it"
        ),
    ],
)
def test_another_concatenation_is_no_place(nodes: list[onnx.NodeProto]) -> None:
    with pytest.raises(LenetTrtError, match=f"{CONCAT}: the network has no place for it"):
        taken(model_of(*nodes), CONCAT)
