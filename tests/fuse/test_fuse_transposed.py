"""Transposed convolutions of 2x2 filters at stride 2: what a kernel replaces, what is left, and what is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from fused_models import check_left_alone, fused_alike
from lenet_trt.fuse.places import find_places
from lenet_trt.kernel import registry
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn
NAME = "transposed_conv2x2"
CHANNELS, SIDE = 16, 7


class Decoder(nn.Module):  # type: ignore[misc,name-defined]
    """One step of a U-Net's decoder, without bias: the larger maps stand beside those of the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(CHANNELS, 24, 2, 2, bias=False)

    def forward(self, x: Any) -> Any:
        up = self.up(x)
        return torch.cat((up, up.relu()), 1)


def model_of(network: Any, channels: int = CHANNELS, opset: int = 17) -> onnx.ModelProto:
    return exported_module(network.eval(), torch.zeros(2, channels, SIDE, SIDE + 2), opset)


def alike(model: onnx.ModelProto) -> list[str]:
    """Return the operators of the fused model, which computes the same."""
    x = np.random.default_rng(1).normal(size=(3, CHANNELS, SIDE, SIDE + 2)).astype(np.float32)
    return fused_alike(model, NAME, x)


@pytest.mark.parametrize("opset", [11, 17, pytest.param(18, marks=pytest.mark.slow), 23])
def test_a_layer_that_doubles_images_is_a_kernel(opset: int) -> None:
    assert alike(model_of(nn.ConvTranspose2d(CHANNELS, 24, 2, 2), opset=opset)) == [NAME]


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.SiLU(), nn.GELU()], ids=str)
def test_the_activation_is_part_of_the_kernel(activation: Any) -> None:
    assert alike(model_of(nn.Sequential(nn.ConvTranspose2d(CHANNELS, 16, 2, 2), activation))) == [NAME]


def test_what_is_also_read_without_its_activation_keeps_it() -> None:
    assert alike(model_of(Decoder())) == [NAME, "Relu", "Concat"]


@pytest.mark.parametrize(
    "network",
    [
        nn.ConvTranspose2d(CHANNELS, 24, 3, 2),
        nn.ConvTranspose2d(CHANNELS, 24, 2, 1),
        nn.ConvTranspose2d(CHANNELS, 24, (2, 1), 2),
        nn.ConvTranspose2d(CHANNELS, 24, 2, (2, 1)),
        nn.ConvTranspose2d(CHANNELS, 24, 2, 2, padding=1),
        nn.ConvTranspose2d(CHANNELS, 24, 2, 2, output_padding=1),
        nn.ConvTranspose2d(CHANNELS, 24, 2, 2, dilation=2),
        nn.ConvTranspose2d(CHANNELS, 32, 2, 2, groups=2),
        nn.ConvTranspose2d(CHANNELS, 12, 2, 2),
        nn.ConvTranspose2d(12, CHANNELS, 2, 2),
        nn.ConvTranspose2d(CHANNELS, 20, 2, 2),
    ],
    ids=lambda network: str(network).removeprefix("ConvTranspose2d"),
)
def test_what_the_kernel_does_not_compute_stays_as_it_is(network: Any) -> None:
    check_left_alone(model_of(network, network.in_channels), NAME)


@pytest.mark.parametrize(
    ("channels", "planes", "sm", "taken"),
    [(64, 32, 90, True), (32, 32, 90, True), (64, 32, 89, False), (24, 32, 90, False), (64, 24, 90, False)],
)
def test_auto_takes_what_was_measured_on_hopper(channels: int, planes: int, sm: int, taken: bool) -> None:
    model = model_of(nn.ConvTranspose2d(channels, planes, 2, 2), channels)
    assert len(find_places(model, [registry.kernel(NAME)], [sm])[0]) == taken
