"""Depthwise and grouped convolutions and pools: what is found in exported networks, and what must be left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

from lenet_trt.cli import main
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run
from torch_export import exported_module, side_by_side

WINDOWS = ("depthwise_conv", "grouped_conv", "average_pool", "max_pool", "maxpool2", "global_average_pool")
SOME = settings(max_examples=40)
SIDE = 11


def model_of(
    node: onnx.NodeProto, channels: int, tensors: dict[str, np.ndarray], opset: int = 17, rank: int = 4
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, SIDE, SIDE + 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{index}" for index in range(rank)])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def fused_alike(model: onnx.ModelProto, channels: int) -> list[str]:
    """Fuse a model, compare it with the plain one for two batch sizes, and return the kernels that are used."""
    fused = fuse(model, "auto").model
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, channels, SIDE, SIDE + 1)).astype(np.float32)
        for seen, wanted in zip(run(fused, x), run(model, x), strict=True):
            np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    return used(fused)


def refused(model: onnx.ModelProto, channels: int) -> bool:
    """Whether ONNX Runtime itself refuses the plain model, as it does padding as wide as the window."""
    try:
        run(model, np.zeros((1, channels, SIDE, SIDE + 1), np.float32))
    except (Fail, RuntimeException):
        return True
    return False


def window(draw: Any, sizes: list[int]) -> dict[str, Any]:
    """Draw a window: often square and symmetric, sometimes not."""
    size = draw(st.sampled_from(sizes))
    stride, pad = draw(st.sampled_from([1, 2])), draw(st.integers(0, size // 2))
    attributes: dict[str, Any] = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    odd = draw(st.sampled_from(["", "", "", "kernel_shape", "strides", "pads", "auto_pad"]))
    if odd == "kernel_shape":
        attributes["kernel_shape"] = [size, size + 1]
    elif odd == "strides":
        attributes["strides"] = [stride, stride + 1]
    elif odd == "pads":
        attributes["pads"] = [pad, pad, pad, pad + 1] if pad + 1 < size else [0, 0, 0, 1]
    elif odd == "auto_pad":
        del attributes["pads"]
        attributes["auto_pad"] = draw(st.sampled_from(["VALID", "SAME_UPPER", "SAME_LOWER"]))
    return attributes


def regular(attributes: dict[str, Any]) -> bool:
    """Whether a window with numbers for padding has one size, one stride and one padding."""
    return all(len(set(attributes[name])) == 1 for name in ("kernel_shape", "strides", "pads"))


@SOME
@given(st.data())
def test_convolutions_are_replaced_where_they_are_what_the_kernels_compute(data: Any) -> None:
    attributes = window(data.draw, [1, 3, 5, 7])
    dilated = data.draw(st.sampled_from([False, False, True])) and attributes["kernel_shape"] == [3, 3]
    if dilated:
        attributes["dilations"] = [2, 2]
        attributes.pop("auto_pad", None)
    group, inside, out = data.draw(st.sampled_from([(1, 4, 4), (2, 2, 2), (2, 2, 3), (4, 1, 1), (4, 1, 2), (3, 4, 2)]))
    shape = (group * out, inside, *attributes["kernel_shape"])
    rng = np.random.default_rng(0)
    tensors = {"w": rng.normal(size=shape).astype(np.float32) / 5}
    if data.draw(st.booleans()):
        tensors["bias"] = rng.normal(size=group * out).astype(np.float32)
    model = model_of(
        helper.make_node("Conv", ["x", *tensors], ["y"], group=group, **attributes), group * inside, tensors
    )
    found = [name for name in fused_alike(model, group * inside) if name in WINDOWS]
    if "pads" in attributes:
        size, pad = attributes["kernel_shape"][0], attributes["pads"][0]
        fits = regular(attributes) and not dilated and pad <= 3
        depthwise = fits and size in (3, 5, 7) and inside == out == 1
        grouped = fits and size in (3, 5) and inside > 1 and out > 1 and group > 1
        assert found == (["depthwise_conv"] if depthwise else ["grouped_conv"] if grouped else [])


@SOME
@given(st.data())
def test_pools_are_replaced_where_they_are_what_the_kernels_compute(data: Any) -> None:
    op_type = data.draw(st.sampled_from(["AveragePool", "MaxPool"]))
    attributes = window(data.draw, [1, 2, 3, 4, 5, 6])
    if data.draw(st.sampled_from([False, False, True])):
        attributes["ceil_mode"] = 1
    if op_type == "AveragePool" and data.draw(st.booleans()):
        attributes["count_include_pad"] = 1
    if op_type == "MaxPool" and data.draw(st.sampled_from([False, False, True])):
        attributes["dilations"] = [2, 2]
    if "auto_pad" in attributes and {"ceil_mode", "dilations"} & attributes.keys():
        return  # ONNX Runtime and ONNX disagree on what these mean together
    model = model_of(helper.make_node(op_type, ["x"], ["y"], **attributes), 3, {})
    assume(not refused(model, 3))
    found = fused_alike(model, 3)
    if "pads" in attributes:
        size = attributes["kernel_shape"][0]
        fits = regular(attributes) and 2 <= size <= 5 and not {"ceil_mode", "dilations"} & attributes.keys()
        plain = op_type == "MaxPool" and attributes == {"kernel_shape": [2] * 2, "strides": [2] * 2, "pads": [0] * 4}
        name = "average_pool" if op_type == "AveragePool" else "maxpool2" if plain else "max_pool"
        assert found == ([name] if fits else [])


@pytest.mark.parametrize("axes", [[2, 3], [-2, -1], [3, 2], [-1, -2], [2, -1], [1], [3], [1, 2, 3], [0, 2, 3]], ids=str)
@pytest.mark.parametrize("keepdims", [1, 0])
@pytest.mark.parametrize("opset", [13, 18])
def test_means_are_replaced_where_they_are_over_height_and_width(axes: list[int], keepdims: int, opset: int) -> None:
    tensors = {"axes": np.array(axes, np.int64)} if opset >= 18 else {}
    attributes: dict[str, Any] = {"keepdims": keepdims, **({} if tensors else {"axes": axes})}
    rank = 4 if keepdims else 4 - len(axes)
    model = model_of(helper.make_node("ReduceMean", ["x", *tensors], ["y"], **attributes), 3, tensors, opset, rank)
    found = fused_alike(model, 3)
    written = axes in ([2, 3], [3, 2], [-2, -1], [-1, -2])  # 2 with -1 is right too, and nobody writes it
    assert found == (["global_average_pool"] if written else [])


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn


def exported(network: Any, opset: int) -> onnx.ModelProto:
    """The network on images of the size of these tests."""
    return exported_module(network, torch.zeros(2, 4, SIDE, SIDE + 1), opset)


ACTIVATIONS = (nn.Identity(), nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.SiLU())


@pytest.mark.parametrize("opset", [11, 17, pytest.param(18, marks=pytest.mark.slow), 23])
def test_a_convolution_and_its_activation_are_one_kernel_in_exports(opset: int) -> None:
    networks = []
    for activation in ACTIVATIONS:
        # The exporters fold the normalisation into the convolution.
        normalised = (nn.Conv2d(4, 4, 3, 2, 1, groups=4, bias=False), nn.BatchNorm2d(4), activation)
        networks.append(nn.Sequential(*normalised, nn.Conv2d(4, 6, 3, groups=2), activation))
    model = exported(side_by_side(networks), opset)
    assert sorted(fused_alike(model, 4)) == ["depthwise_conv"] * len(ACTIVATIONS) + ["grouped_conv"] * len(ACTIVATIONS)
    assert len(fuse(model, "auto").model.graph.node) == 2 * len(ACTIVATIONS)


@pytest.mark.parametrize("opset", [20, 23])
def test_gelu_is_part_of_the_kernel_where_it_is_one_node(opset: int) -> None:
    model = exported(nn.Sequential(nn.Conv2d(4, 4, 7, padding=3, groups=4, bias=False), nn.GELU()).eval(), opset)
    assert fused_alike(model, 4) == ["depthwise_conv"]
    assert len(fuse(model, "auto").model.graph.node) == 1


@pytest.mark.parametrize("opset", [11, 17, pytest.param(18, marks=pytest.mark.slow), 23])
def test_pools_are_found_in_exports(opset: int) -> None:
    pools = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1))
    found = fused_alike(exported(pools.eval(), opset), 4)
    assert found == ["average_pool", "max_pool", "average_pool", "global_average_pool"]


def test_several_layers_of_one_kernel_have_one_function_that_chooses() -> None:
    layers = [nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.Conv2d(4, 4, 5, 2, 2, groups=4), nn.ReLU6()]
    layers += [nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, 1, 0, groups=8), nn.SiLU()]
    model = exported(nn.Sequential(*layers).eval(), 17)
    assert fused_alike(model, 4) == ["depthwise_conv"] * 3
    assert [function.name for function in fuse(model, "auto").model.functions] == ["depthwise_conv"]


def test_a_refusal_of_each_kernel_is_printed_and_none_for_what_was_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = [layer for _ in range(9) for layer in (nn.Conv2d(12, 12, 3, padding=1), nn.ReLU())]
    model = exported(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 12, 3), *layers).eval(), 17)
    onnx.save(model, tmp_path / "network.onnx")
    assert main(["fuse", str(tmp_path / "network.onnx")]) == 0
    printed = capsys.readouterr()
    depthwise = next(line for line in printed.out.splitlines() if " replaces " in line).split(" replaces ")[1]
    assert not any(depthwise in line for line in printed.err.splitlines())
    lines = [line for line in printed.err.splitlines() if line.startswith("left as it is")]
    told = [line for line in lines if "few_filter_conv wants k <= 8, and k = 12" in line]
    assert len(told) == 1
    assert told[0].endswith("(few_filter_conv does not fit 8 other places: --json lists them)")
    kernels = [line.split(": ")[2].split()[0] for line in lines]
    assert len(kernels) == len(set(kernels)) > 1, "a line for each kernel"
