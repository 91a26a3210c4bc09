"""Convolutions from many channels to many, which kernels take by name alone: alone and with a residual connection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn
CONV, ADD = "many_channel_conv", "many_channel_conv_add"
CHANNELS, HEIGHT, WIDTH = 16, 9, 12


class Block(nn.Module):  # type: ignore[misc,name-defined]
    """A block of ResNet; the path beside it is a convolution where the stride is not 1."""

    def __init__(self, stride: int, residual_first: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, 24, 3, stride, 1)
        self.second = nn.Conv2d(24, CHANNELS, 3, 1, 1, bias=False)
        self.beside = nn.Conv2d(CHANNELS, CHANNELS, 1, stride) if stride > 1 else nn.Identity()
        self.residual_first = residual_first

    def forward(self, x: Any) -> Any:
        y, residual = self.second(self.first(x).relu()), self.beside(x)
        return (residual + y if self.residual_first else y + residual).relu()


class Unpadded(nn.Module):  # type: ignore[misc,name-defined]
    """Two convolutions without padding and their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(CHANNELS, 24, 3), nn.Conv2d(CHANNELS, 24, 3)

    def forward(self, x: Any) -> Any:
        return self.first(x) + self.second(x)


def fused_alike(network: Any, *names: str) -> list[str]:
    """Fuse a network by these kernels, compare it with the plain one, and return the operators that are left."""
    model = exported_module(network.eval(), torch.zeros(2, CHANNELS, HEIGHT, WIDTH), 17)
    fused = fuse(model, list(names)).model
    x = np.random.default_rng(1).normal(size=(3, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    assert all(node.domain == DOMAIN for node in fused.graph.node)
    return sorted(node.op_type for node in fused.graph.node)


@pytest.mark.parametrize("residual_first", [False, True])
def test_a_block_of_resnet_is_two_kernels(residual_first: bool) -> None:
    assert fused_alike(Block(1, residual_first), CONV, ADD) == [CONV, ADD]


@pytest.mark.parametrize("residual_first", [False, True])
def test_the_convolution_beside_a_block_is_a_kernel_too(residual_first: bool) -> None:
    assert fused_alike(Block(2, residual_first), CONV, ADD) == [CONV, CONV, ADD]


def test_what_is_added_may_be_smaller_than_the_images() -> None:
    assert fused_alike(Unpadded(), CONV, ADD) == [CONV, ADD]


def test_the_activation_is_part_of_the_kernel() -> None:
    for activation in (nn.ReLU(), nn.SiLU(), nn.GELU()):
        assert fused_alike(nn.Sequential(nn.Conv2d(CHANNELS, 24, 3, 2, 1), activation), CONV) == [CONV]


def test_channels_that_8_divides_are_beside_others_in_one_model() -> None:
    layers = [nn.Conv2d(CHANNELS, 58, 1), nn.Conv2d(58, 64, 1), nn.Conv2d(64, 29 * 2, 1)]
    assert fused_alike(nn.Sequential(*layers), CONV) == [CONV] * 3


def test_nothing_is_taken_without_the_name() -> None:
    model = exported_module(nn.Conv2d(CHANNELS, 24, 3), torch.zeros(2, CHANNELS, HEIGHT, WIDTH), 17)
    assert [node.op_type for node in fuse(model, "auto").model.graph.node] == ["Conv"]
