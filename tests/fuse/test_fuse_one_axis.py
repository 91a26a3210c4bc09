"""Convolutions along one axis, dilated or not: what a kernel replaces, what must be left, and what is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from fused_models import check_left_alone, fused_alike
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
nn = torch.nn
NAME = "many_channel_conv1d"
CHANNELS, STEPS = 16, 41


class Residual(nn.Module):  # type: ignore[misc,name-defined]
    """Two dilated convolutions, as networks for sound have them; the second one has no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(CHANNELS, 24, 9, padding=16, dilation=4)
        self.second = nn.Conv1d(24, CHANNELS, 3, padding=1, bias=False)

    def forward(self, x: Any) -> Any:
        return x + self.second(self.first(x).relu())


def model_of(network: Any, channels: int = CHANNELS, steps: int = STEPS, opset: int = 17) -> onnx.ModelProto:
    return exported_module(network.eval(), torch.zeros(2, channels, steps), opset)


def alike(model: onnx.ModelProto) -> list[str]:
    """Return the operators of the fused model, which computes the same."""
    return fused_alike(model, NAME, np.random.default_rng(1).normal(size=(3, CHANNELS, STEPS)).astype(np.float32))


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1, {}),
        (3, {"padding": 1}),
        (4, {"stride": 2}),
        (9, {"padding": 16, "dilation": 4}),
        (16, {"padding": 15, "dilation": 2, "stride": 2, "bias": False}),
    ],
)
def test_a_convolution_is_a_kernel_with_and_without_dilation(size: int, options: dict[str, int], opset: int) -> None:
    assert alike(model_of(nn.Conv1d(CHANNELS, 24, size, **options), opset=opset)) == [NAME]


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.SiLU(), nn.GELU()], ids=str)
def test_the_activation_is_part_of_the_kernel(activation: Any) -> None:
    convolution = nn.Conv1d(CHANNELS, 24, 5, padding=6, dilation=3)
    assert alike(model_of(nn.Sequential(convolution, activation))) == [NAME]


def test_the_sum_of_a_residual_connection_stays() -> None:
    assert alike(model_of(Residual())) == [NAME, NAME, "Add"]


@pytest.mark.parametrize(
    "network",
    [
        nn.Conv1d(CHANNELS, 32, 3, groups=2),
        nn.Conv1d(CHANNELS, 24, 17, padding=8),
        nn.Conv1d(CHANNELS, 24, 3, stride=3),
        nn.Conv1d(CHANNELS, 12, 3),
        nn.Conv1d(12, CHANNELS, 3),
        nn.Conv1d(CHANNELS, 20, 3),
    ],
    ids=["groups", "17 taps", "stride 3", "12 filters", "12 channels", "20 filters"],
)
def test_what_the_kernel_does_not_compute_stays_a_convolution(network: Any) -> None:
    check_left_alone(model_of(network, network.in_channels), NAME)


def test_unequal_padding_stays_a_convolution() -> None:
    model = model_of(nn.Conv1d(CHANNELS, 24, 3, padding=1))
    (pads,) = (attribute for attribute in model.graph.node[0].attribute if attribute.name == "pads")
    pads.ints[:] = [2, 0]  # as many steps of y
    check_left_alone(model, NAME)


def test_nothing_is_taken_without_the_name() -> None:
    model = model_of(nn.Conv1d(64, 64, 9, padding=4), 64)
    assert [node.op_type for node in fuse(model, "auto").model.graph.node] == ["Conv"]


@pytest.mark.parametrize(
    ("channels", "filters", "size", "options", "sm", "taken"),
    [
        (64, 64, 9, {"padding": 4}, 90, True),
        (64, 64, 9, {"padding": 128, "dilation": 32}, 90, True),
        (32, 32, 3, {}, 90, True),
        (64, 64, 9, {"padding": 4}, 89, False),
        (64, 64, 9, {"padding": 4, "stride": 2}, 90, False),
        (64, 64, 2, {}, 90, False),
        (24, 64, 9, {"padding": 4}, 90, False),
        (64, 24, 9, {"padding": 4}, 90, False),
        (64, 64, 9, {"padding": 512, "dilation": 128}, 90, False),  # the stages do not fit in shared memory
    ],
)
def test_auto_takes_what_wgmma_computes_on_hopper(
    channels: int, filters: int, size: int, options: dict[str, int], sm: int, taken: bool
) -> None:
    model = model_of(nn.Conv1d(channels, filters, size, **options), channels, 2000)
    places, _ = find_places(model, [registry.kernel(NAME)], [sm])
    assert len(places) == taken
