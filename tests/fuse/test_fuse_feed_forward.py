"""The gated feed-forward layers of language models as torch's exporters write them are one kernel."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

GATED, TOKENS, INPUTS, OUTPUTS = "linear_half_gated", 7, 40, 48


class FeedForward(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Compute a feed-forward layer as LLaMA, Gemma and T5 v1.1 have it."""

    def __init__(self, activation: Any, bias: bool = False) -> None:
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(INPUTS, OUTPUTS, bias=bias) for _ in range(2))
        self.down = torch.nn.Linear(OUTPUTS, INPUTS, bias=bias)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


def new_gelu(x: torch.Tensor) -> torch.Tensor:
    """Compute GELU as transformers writes it for T5 v1.1."""
    return 0.5 * x * (1.0 + torch.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": torch.nn.GELU("tanh"),
    "new_gelu": new_gelu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_exported_layer_that_is_converted_to_halves(activation: str, opset: int, bias: bool) -> None:
    torch.manual_seed(3)
    x = torch.randn(2, TOKENS, INPUTS)
    model = convert(exported_module(FeedForward(ACTIVATIONS[activation], bias).eval(), x, opset), "fp16")
    fused = fuse(model, [GATED]).model
    assert Counter(plugin_nodes(fused).values()) == {GATED: 1}
    (seen,), (wanted,) = (run(each, x.numpy()) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-3)
