"""Dense layers of tokens behind a gate of their image, and the sum behind it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

NAME = "linear_half_gate_add"
IMAGES, TOKENS, WIDTH = 2, 5, 32
OPSETS = [11, 17, pytest.param(18, marks=pytest.mark.slow), 23]


class Gated(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Compute a layer, let it through a gate of each image, and add the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gate(x) * self.layer(x.sin())

    def gate(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0].cos()[:, None]


class Otherwise(Gated):
    """Have the operands in the other order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.sin()) * self.gate(x) + x


class OfTokens(Gated):
    """Have a gate for each token."""

    def gate(self, x: torch.Tensor) -> torch.Tensor:
        return x.cos()


def exported(module: torch.nn.Module, opset: int = 17) -> onnx.ModelProto:
    torch.manual_seed(3)
    return exported_module(module.half().eval(), torch.randn(IMAGES, TOKENS, WIDTH, dtype=torch.float16), opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("module", [Gated, Otherwise])
def test_the_gate_and_the_sum_are_in_the_kernel(module: type[Gated], opset: int) -> None:
    model = exported(module(), opset)
    fused = fuse(model, [NAME], architectures=[90]).model
    assert list(plugin_nodes(fused).values()) == [NAME]
    x = np.random.default_rng(4).normal(size=(IMAGES, TOKENS, WIDTH)).astype(np.float16)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-2)


def test_gates_of_tokens_are_left() -> None:
    with pytest.raises(LenetTrtError, match="no place for it"):
        fuse(exported(OfTokens()), [NAME], architectures=[90])
