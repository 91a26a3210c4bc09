"""The stem of a ResNet in 16 bits: where one kernel takes it whole, with the images' Cast or without."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

STEM = "conv7x7_pool3_half"
WIDTH, FILTERS = 112, 16
CONVOLUTION = {"kernel_shape": [7, 7], "pads": [3] * 4, "strides": [2, 2]}
POOL = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]}
LAYERS = ("Conv", "Relu", "MaxPool")


def stem(
    *layers: str,
    channels: int = 3,
    width: int = WIDTH,
    filters: int = FILTERS,
    images: int = TensorProto.FLOAT16,
    dtype: int = TensorProto.FLOAT16,
    conv: dict[str, Any] | None = None,
    pool: dict[str, Any] | None = None,
) -> onnx.ModelProto:
    """Return a model of these layers, from x to y, with a Cast in front where the images are of another type."""
    pooling = {**POOL, **(pool or {})}
    attributes = {"Conv": {**CONVOLUTION, **(conv or {})}, "MaxPool": pooling, "AveragePool": pooling}
    size, group = attributes["Conv"]["kernel_shape"], attributes["Conv"].get("group", 1)
    random = np.random.default_rng(2)
    tensors = [
        numpy_helper.from_array((random.normal(size=shape) / 8).astype(helper.tensor_dtype_to_np_dtype(dtype)), name)
        for name, shape in {"w": (filters, channels // group, *size), "b": (filters,)}.items()
    ]
    names = ["x", *(f"t{i}" for i in range(len(layers))), "y"]
    nodes = [] if images == dtype else [helper.make_node("Cast", ["x"], ["t0"], to=dtype)]
    at = len(nodes)
    for i, layer in enumerate(layers):
        last = i == len(layers) - 1
        inputs = [names[i + at], *(["w", "b"] if layer == "Conv" else [])]
        nodes.append(helper.make_node(layer, inputs, ["y" if last else names[i + at + 1]], **attributes.get(layer, {})))
    ports = [
        helper.make_tensor_value_info("x", images, [2, channels, 20, width]),
        helper.make_tensor_value_info("y", dtype, list("nkhw")),
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def taken(model: onnx.ModelProto, *names: str, architecture: int = 90) -> list[str]:
    """Return the plugins that are taken, by name or by themselves; the results are those of the plain model."""
    fused = fuse(model, names or "auto", architectures=[architecture]).model
    port = model.graph.input[0].type.tensor_type
    x = np.random.default_rng(3).normal(size=[d.dim_value for d in port.shape.dim])
    x = x.astype(helper.tensor_dtype_to_np_dtype(port.elem_type))
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-2)
    return list(plugin_nodes(fused).values())


@pytest.mark.parametrize("images", [TensorProto.FLOAT16, TensorProto.FLOAT])
@pytest.mark.parametrize("layers", [LAYERS, ("Conv", "MaxPool", "Relu"), ("Conv", "MaxPool")], ids="-".join)
def test_the_stem_is_one_kernel_with_the_cast_of_its_images(layers: tuple[str, ...], images: int) -> None:
    model = stem(*layers, images=images)
    assert taken(model) == [STEM]
    assert len(fuse(model, "auto", architectures=[90]).model.graph.node) == 1


def test_in_fp32_the_kernels_in_nchw_stay() -> None:
    kinds = {"images": TensorProto.FLOAT, "dtype": TensorProto.FLOAT}
    assert taken(stem(*LAYERS, **kinds)) == ["few_channel_conv", "max_pool"]


@pytest.mark.parametrize(("width", "architecture"), [(56, 90), (WIDTH, 80), (WIDTH, 89), (WIDTH, 120)], ids=str)
def test_small_images_and_other_gpus_are_left_to_tensorrt(width: int, architecture: int) -> None:
    assert taken(stem(*LAYERS, width=width), architecture=architecture) == []
    assert taken(stem(*LAYERS, width=width), STEM, architecture=architecture) == [STEM]


@pytest.mark.parametrize(
    "changed",
    [
        {"conv": {"pads": [2] * 4}},
        {"conv": {"pads": [3, 3, 2, 3]}},
        {"conv": {"strides": [1, 1]}},
        {"conv": {"strides": [2, 1]}},
        {"conv": {"dilations": [2, 2]}},
        {"conv": {"group": 3}, "filters": 24},
        {"conv": {"kernel_shape": [5, 5], "pads": [2] * 4}},
        {"pool": {"kernel_shape": [2, 2], "pads": [0] * 4}},
        {"pool": {"pads": [0] * 4}},
        {"pool": {"strides": [1, 1]}},
        {"pool": {"ceil_mode": 1}},
    ],
    ids=str,
)
def test_another_stem_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{STEM}: the network has no place for it"):
        taken(stem(*LAYERS, **changed), STEM)


def test_a_pool_of_averages_or_of_dilated_windows_is_no_place() -> None:
    with pytest.raises(LenetTrtError, match=f"{STEM}: the network has no place for it"):
        taken(stem("Conv", "Relu", "AveragePool"), STEM)
    with pytest.raises(LenetTrtError, match=f"{STEM}: the network has no place for it"):
        taken(stem(*LAYERS, pool={"dilations": [2, 2]}), STEM)


def test_an_activation_that_falls_cannot_follow_the_pool() -> None:
    """The largest of a window has not always the largest HardSwish."""
    with pytest.raises(LenetTrtError, match=f"{STEM}: the network has no place for it"):
        taken(stem("Conv", "HardSwish", "MaxPool"), STEM)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [({"width": 116}, "w is a multiple of 8"), ({"filters": 12}, "k is a multiple of 8"), ({"channels": 4}, "c <= 3")],
    ids=str,
)
def test_sizes_that_it_has_no_code_for_are_named(changed: dict[str, Any], wanted: str) -> None:
    with pytest.raises(LenetTrtError, match=wanted):
        taken(stem(*LAYERS, **changed), STEM)
