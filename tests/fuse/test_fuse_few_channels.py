"""Convolutions from few channels or to few: what is found in exported networks, and what must be left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run
from torch_export import exported_module, side_by_side

NAME = "few_channel_conv"
HEIGHT, WIDTH = 13, 18
SOME = settings(max_examples=40)


def model_of(node: onnx.NodeProto, channels: int, tensors: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{index}" for index in range(4)])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def fused_alike(model: onnx.ModelProto, channels: int) -> list[str]:
    """Fuse a model, compare it with the plain one for two batch sizes, and return the kernels that are used.

    All that fit: ``few_filter_conv`` claims larger images than these, and ``many_channel_conv`` some filters.
    """
    fused = fuse(model, "all").model
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, channels, HEIGHT, WIDTH)).astype(np.float32)
        for seen, wanted in zip(run(fused, x), run(model, x), strict=True):
            np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    return [node.op_type for node in fused.graph.node if node.domain == DOMAIN]


@SOME
@given(st.data())
def test_convolutions_are_replaced_where_they_are_what_the_kernel_computes(data: Any) -> None:
    size, stride = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    pads = [data.draw(st.integers(0, 4))] * 4
    attributes: dict[str, Any] = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": pads}
    odd = data.draw(st.sampled_from(["", "", "", "", "kernel_shape", "strides", "pads", "dilations", "group"]))
    if odd == "kernel_shape":
        attributes["kernel_shape"] = [size, size + 1]
    elif odd == "strides":
        attributes["strides"] = [stride, stride + 1]
    elif odd == "pads":
        attributes["pads"] = [pads[0], pads[0], pads[0], pads[0] + 1]
    elif odd == "dilations":
        attributes["dilations"] = [2, 2]
        attributes["kernel_shape"] = [size := min(size, 4)] * 2
    group = 2 if odd == "group" else 1
    channels, filters = data.draw(
        st.sampled_from([(1, 64), (3, 16), (4, 9), (5, 9), (6, 4), (64, 8), (64, 2), (16, 32)])
    )
    rng = np.random.default_rng(0)
    weights = (
        rng.normal(size=(group * filters, channels, *attributes["kernel_shape"])) / (channels * size * size) ** 0.5
    )
    tensors = {"w": weights.astype(np.float32)}
    if data.draw(st.booleans()):
        tensors["bias"] = rng.normal(size=group * filters).astype(np.float32)
    node = helper.make_node("Conv", ["x", *tensors], ["y"], group=group, **attributes)
    found = fused_alike(model_of(node, group * channels, tensors), group * channels)
    fits = not odd and 2 <= size <= 7 and stride <= 2 and pads[0] <= 3
    if fits and size == 5 and stride == 1 and pads[0] == 0:
        assert found == ["conv5x5_bias"]
    elif group == 1:
        name = NAME if channels <= 4 else "few_filter_conv" if filters <= 8 else None
        if channels == 16:  # of which another kernel takes 1x1 filters too
            fits = not odd and size <= 7 and stride <= 2 and pads[0] <= 3
            name = "many_channel_conv"
        assert found == ([name] if fits and name else [])


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn


def exported(network: Any, channels: int, opset: int) -> onnx.ModelProto:
    """The network on images of the size of these tests."""
    return exported_module(network, torch.zeros(2, channels, HEIGHT, WIDTH), opset)


ACTIVATIONS = (nn.Identity(), nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.SiLU(), nn.GELU())


@pytest.mark.parametrize(
    "opset", [11, 13, 17, pytest.param(18, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow), 23]
)
def test_a_stem_and_its_activation_are_one_kernel_in_exports(opset: int) -> None:
    # The exporters fold the normalisation into the convolution.
    stems = [
        nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), activation)
        for activation in ACTIVATIONS
    ]
    model = exported(side_by_side(stems), 3, opset)
    assert fused_alike(model, 3) == [NAME] * len(ACTIVATIONS)
    assert len(fuse(model, "auto").model.graph.node) == len(ACTIVATIONS)


def test_an_activation_whose_result_is_used_elsewhere_too_stays_right() -> None:
    class Twice(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            return nn.functional.silu(y) + y

    assert fused_alike(exported(Twice().eval(), 3, 17), 3) == [NAME]


def test_the_approximation_of_gelu_is_not_part_of_the_kernel() -> None:
    model = exported(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU("tanh")).eval(), 3, 20)
    assert fused_alike(model, 3) == [NAME]
    assert len(fuse(model, "auto").model.graph.node) == 2
