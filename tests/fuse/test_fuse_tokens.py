"""Pixels that become tokens and maps again: the layers around attention over pixels, and the residual behind it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

NAME = "linear_half_add"
CHANNELS, HEIGHT, WIDTH = 32, 6, 10
OPSETS = [11, 17, pytest.param(18, marks=pytest.mark.slow), 23]


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Compute a dense layer of an image's pixels, and add the image, as diffusers' transformer blocks do."""

    def __init__(self, inputs: int = CHANNELS) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(inputs, CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, _, h, w = x.shape
        tokens = x.permute(0, 2, 3, 1).reshape(n, h * w, CHANNELS)
        return self.added(self.maps(self.layer(tokens.sin()), n, h, w), x)

    def maps(self, tokens: torch.Tensor, n: int, h: int, w: int) -> torch.Tensor:
        return tokens.reshape(n, h, w, CHANNELS).permute(0, 3, 1, 2)

    def added(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return y + x


class Turned(Block):
    """Bring the channels to the front before the pixels get two axes, and add the other way round."""

    def maps(self, tokens: torch.Tensor, n: int, h: int, w: int) -> torch.Tensor:
        return tokens.transpose(1, 2).reshape(n, CHANNELS, h, w)

    def added(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x + y


class Pointwise(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Compute 1x1 convolutions on both sides of the tokens, and add the image, as Stable Diffusion 1.5 does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = (torch.nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, _, h, w = x.shape
        tokens = self.tokens(self.inner(x)).sin()
        return self.outer(tokens.reshape(n, h, w, CHANNELS).permute(0, 3, 1, 2)) + x

    def tokens(self, maps: torch.Tensor) -> torch.Tensor:
        n, _, h, w = maps.shape
        return maps.permute(0, 2, 3, 1).reshape(n, h * w, CHANNELS)


class Flattened(Pointwise):
    """Flatten the image before the channels come last."""

    def tokens(self, maps: torch.Tensor) -> torch.Tensor:
        return maps.flatten(2).transpose(1, 2)


class Sideways(Block):
    """Read the pixels as those of an image that lies on its side."""

    def maps(self, tokens: torch.Tensor, n: int, h: int, w: int) -> torch.Tensor:
        return tokens.reshape(n, w, h, CHANNELS).permute(0, 3, 2, 1)


class Gathered(Block):
    """Read neighbouring tokens as the channels of a pixel."""

    def maps(self, tokens: torch.Tensor, n: int, h: int, w: int) -> torch.Tensor:
        return tokens.reshape(n, CHANNELS, h, w)


def exported(module: torch.nn.Module, opset: int = 17) -> onnx.ModelProto:
    torch.manual_seed(5)
    x = torch.randn(2, CHANNELS, HEIGHT, WIDTH, dtype=torch.float16)
    return exported_module(module.half().eval(), x, opset)


def taken(model: onnx.ModelProto, plugin: str = NAME) -> Counter[str]:
    """Return the plugins that a model gets by name; its results stay the same."""
    fused = fuse(model, [plugin], architectures=[90]).model
    x = np.random.default_rng(3).normal(size=(2, CHANNELS, HEIGHT, WIDTH)).astype(np.float16)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-2)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("block", [Block, Turned])
def test_the_layer_writes_maps_and_adds_the_residual(block: type[Block], opset: int) -> None:
    model = exported(block(), opset)
    assert taken(model) == taken(with_sizes(model, {"n": 2})) == {NAME: 1}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("block", [Pointwise, Flattened])
def test_convolutions_of_pixels_write_and_read_tokens(block: type[Pointwise], opset: int) -> None:
    model = exported(block(), opset)
    for each in (model, with_sizes(model, {"n": 2})):
        assert taken(each, "conv1x1_half_tokens") == {"conv1x1_half_tokens": 1}
        assert taken(each) == {NAME: 1}


def test_a_node_without_inputs_is_none_of_them() -> None:
    model = exported(Pointwise())
    noise = onnx.helper.make_node("RandomNormal", [], ["noise"], shape=[2])
    model.graph.node.insert(0, noise)
    model.graph.output.append(onnx.helper.make_tensor_value_info("noise", onnx.TensorProto.FLOAT, [2]))
    assert list(plugin_nodes(fuse(model, [NAME], architectures=[90]).model).values()) == [NAME]


@pytest.mark.parametrize("block", [Sideways, Gathered])
def test_other_orders_of_the_pixels_are_left(block: type[Block]) -> None:
    model = exported(block())
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model, [NAME], architectures=[90])
    assert taken(model, "linear_half") == {"linear_half": 1}
