"""Patches of images: what a kernel replaces in vision transformers and in a Swin, what is left, and what is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from fused_models import fused_alike
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from lenet_trt.runtimes.ort import runner
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn
NAME = "patch_embedding"
HALF = "patch_embedding_half"
CHANNELS, HEIGHT, WIDTH, OUTPUTS = 3, 24, 40, 32
OPSETS = [11, 17, pytest.param(18, marks=pytest.mark.slow), 23]


class ChannelsLast(nn.Module):  # type: ignore[misc,name-defined]
    """The patches of an image with their channels last, as in a Swin or a ConvNeXt."""

    def __init__(self, convolution: Any) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Any) -> Any:
        return self.convolution(x).permute(0, 2, 3, 1)


class Tokens(ChannelsLast):
    """The patches of an image along one axis, as timm writes a vision transformer."""

    def forward(self, x: Any) -> Any:
        return self.convolution(x).flatten(2).transpose(1, 2)


class SizedTokens(ChannelsLast):
    """The same as torchvision writes it: the sizes are computed from those of the images."""

    def forward(self, x: Any) -> Any:
        n, _, h, w = x.shape
        side = self.convolution.stride[0]
        return self.convolution(x).reshape(n, OUTPUTS, (h // side) * (w // side)).permute(0, 2, 1)


class TokensBesideMaps(ChannelsLast):
    """Tokens of maps that are read as they are, too."""

    def forward(self, x: Any) -> Any:
        maps = self.convolution(x)
        return maps.flatten(2).transpose(1, 2) * maps.mean()


def convolution(
    size: Any = 8, stride: Any = None, channels: int = CHANNELS, outputs: int = OUTPUTS, **more: Any
) -> Any:
    return nn.Conv2d(channels, outputs, size, size if stride is None else stride, **more)


def model_of(network: Any, opset: int = 17, height: int = HEIGHT) -> onnx.ModelProto:
    return exported_module(network.eval(), torch.zeros(2, network.convolution.in_channels, height, WIDTH), opset)


def alike(model: onnx.ModelProto) -> list[str]:
    """Return the operators of the fused model, which computes the same, without those that compute sizes."""
    x = np.random.default_rng(1).normal(size=(3, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    return [name for name in fused_alike(model, NAME, x) if name in (NAME, "Conv", "Transpose", "Reshape")]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("bias", [True, False])
def test_channels_last_are_one_kernel(opset: int, bias: bool) -> None:
    assert alike(model_of(ChannelsLast(convolution(bias=bias)), opset)) == [NAME]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("network", [Tokens, SizedTokens])
def test_tokens_are_one_kernel_and_a_view(opset: int, network: Any) -> None:
    model = model_of(network(convolution()), opset)
    assert alike(model) == [NAME, "Reshape"]
    assert alike(with_sizes(model, {model.graph.input[0].type.tensor_type.shape.dim[0].dim_param: 3})) == [
        NAME,
        "Reshape",
    ]


@pytest.mark.parametrize("size", [4, 8])
def test_both_forms_are_one_kernel_in_a_file(size: int) -> None:
    class Both(ChannelsLast):
        def __init__(self) -> None:
            super().__init__(convolution(size))
            self.other = convolution(8, outputs=64)

        def forward(self, x: Any) -> Any:
            first, second = self.convolution(x).permute(0, 2, 3, 1), self.other(x).flatten(2).transpose(1, 2)
            return torch.cat((first.flatten(1), second.flatten(1)), 1)

    assert alike(model_of(Both())).count(NAME) == 2


@pytest.mark.parametrize(
    "layer",
    [
        convolution(8, 4),
        convolution(4, 8),
        convolution((8, 4), (8, 4)),
        convolution(8, padding=4),
        convolution(4, dilation=2),
        convolution(8, groups=CHANNELS, outputs=48),
        convolution(8, outputs=36),
        convolution(8, outputs=24),
        convolution(10),
        convolution(2),
        convolution(4, channels=1),
    ],
    ids=lambda layer: str(layer).removeprefix("Conv2d"),
)
@pytest.mark.parametrize("network", [ChannelsLast, Tokens])
def test_what_the_kernel_does_not_compute_stays_as_it_is(network: Any, layer: Any) -> None:
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model_of(network(layer)), [NAME])


@pytest.mark.parametrize("network", [ChannelsLast, Tokens])
def test_images_that_end_within_a_patch_are_left(network: Any) -> None:
    with pytest.raises(LenetTrtError, match="multiple"):
        fuse(model_of(network(convolution()), height=HEIGHT + 4), [NAME])


def test_maps_that_are_read_as_well_are_left() -> None:
    with pytest.raises(LenetTrtError, match="is also used by"):
        fuse(model_of(TokensBesideMaps(convolution())), [NAME])


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ([3, 5, OUTPUTS * 3], [0, 2, 1]),
        ([3, OUTPUTS, 15], [1, 2, 0]),
        ([3, OUTPUTS, 15], [2, 0, 1]),
        ([1, OUTPUTS, 45], [0, 2, 1]),
        ([3, OUTPUTS * 3, 5], [0, 2, 1]),
    ],
    ids=str,
)
def test_other_reshapes_and_transpositions_are_left(shape: list[int], perm: list[int]) -> None:
    random = np.random.default_rng(2)
    tensors = {
        "w": random.normal(size=(OUTPUTS, CHANNELS, 8, 8)).astype(np.float32),
        "shape": np.array(shape, np.int64),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["maps"], strides=[8, 8]),
            helper.make_node("Reshape", ["maps", "shape"], ["folded"]),
            helper.make_node("Transpose", ["folded"], ["y"], perm=perm),
        ],
        "patches",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, CHANNELS, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 3)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model, [NAME])


@pytest.mark.parametrize(("images", "sm", "taken"), [(300, 90, True), (300, 89, False), (2, 90, False)])
def test_auto_takes_layers_with_enough_work_on_hopper(images: int, sm: int, taken: bool) -> None:
    model = model_of(Tokens(convolution()))
    assert len(find_places(with_sizes(model, {"n": images}), [registry.kernel(NAME)], [sm])[0]) == taken


@pytest.mark.parametrize("network", [ChannelsLast, Tokens, SizedTokens])
@pytest.mark.parametrize("size", [4, 8])
def test_they_are_one_kernel_in_fp16(network: Any, size: int) -> None:
    model = convert(model_of(network(convolution(size))), "fp16")
    fused = fuse(model, [HALF]).model
    assert list(plugin_nodes(fused).values()) == [HALF]
    x = np.random.default_rng(1).normal(size=(3, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    (seen,), (wanted,) = (runner(each)({model.graph.input[0].name: x}) for each in (fused, model))
    assert seen.shape == wanted.shape
    assert relative_error(seen, wanted.astype(np.float64)) < 1e-3


@pytest.mark.parametrize(
    ("images", "sm", "alone", "in_group"),
    [(300, 90, True, False), (100, 90, False, True), (2, 90, False, True), (300, 89, False, False)],
)
def test_auto_takes_layers_in_fp16_with_more_work_or_in_a_group(
    images: int, sm: int, alone: bool, in_group: bool
) -> None:
    model = convert(with_sizes(model_of(Tokens(convolution())), {"n": images}), "fp16")
    places, _ = find_places(model, [registry.kernel(HALF)], [sm])
    assert [place.claimed for place in places] == [alone] * len(places)
    assert any(place.grouped for place in places) == in_group
    assert bool(places) == (alone or in_group)
