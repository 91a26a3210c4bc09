"""Attention in exports with an open batch: its sizes are computed there, and its kernels are found all the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt.library.embed import embedded
from plain_runtime import run

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from torch_export import exported_module  # noqa: E402 - it imports torch

BATCH, TOKENS, WIDTH, HEADS = 3, 10, 24, 4


class Attention(torch.nn.Module):
    """Attention as LeViT writes it: what -1 stands for is lost on ONNX's inference, where the batch is open."""

    def __init__(self) -> None:
        super().__init__()
        self.all_three, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, width = x.shape
        parts = self.all_three(x).view(n, tokens, HEADS, -1).permute(0, 2, 1, 3)
        q, k, v = parts.split([width // HEADS] * 3, dim=3)
        weights = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))


@pytest.mark.parametrize("opset", [11, 17, 20])
def test_attention_has_its_kernels_and_they_can_be_embedded(opset: int) -> None:
    torch.manual_seed(0)
    module, x = Attention().eval(), torch.randn(BATCH, TOKENS, WIDTH)
    model = exported_module(module, x, opset)
    fused = fuse(model, "batched_matmul,softmax").model
    kernels = Counter(node.op_type for node in fused.graph.node if node.domain == DOMAIN)
    assert kernels["batched_matmul"] == 2
    assert kernels["softmax"] == 1
    assert embedded(fused, ["sm_86"]).graph.node
    (got,) = run(fused, x.numpy())
    with torch.no_grad():
        np.testing.assert_allclose(got, module(x).numpy(), atol=1e-5)
    onnx.checker.check_model(fused, full_check=True)
