"""Layers of queries, keys and values are joined where a kernel takes their attention; results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

TOKENS, HEADS, DEPTH = 6, 3, 8
WIDTH = HEADS * DEPTH


class ThreeLayers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Hold an attention as transformers has it, with a layer each for queries, keys and values."""

    def __init__(self, *, scaled: bool = False, width_of_values: int = DEPTH) -> None:
        super().__init__()
        widths = (WIDTH, WIDTH, HEADS * width_of_values)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(WIDTH, width, bias=index != 1) for index, width in enumerate(widths)
        )
        self.out = torch.nn.Linear(widths[-1], WIDTH)
        self.scaled = scaled

    def sources(self, x: Any) -> tuple[Any, Any, Any]:
        return x, x, x

    def forward(self, x: Any) -> Any:
        q, k, v = (layer(source) for layer, source in zip(self.layers, self.sources(x), strict=True))
        if self.scaled:  # as in Whisper, before the heads are parted
            q = q * DEPTH**-0.5
        q, k, v = (each.view(each.shape[0], TOKENS, HEADS, -1).transpose(1, 2) for each in (q, k, v))
        scores = q @ k.transpose(-2, -1)
        if not self.scaled:
            scores = scores * DEPTH**-0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)) + x


class Masked(ThreeLayers):
    """Add a mask of the keys, which differs from text to text."""

    def forward(self, x: Any) -> Any:
        q, k, v = (layer(x).view(x.shape[0], TOKENS, HEADS, -1).transpose(1, 2) for layer in self.layers)
        scores = q @ k.transpose(-2, -1) * DEPTH**-0.5 + x[:, None, None, :, 0]
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)) + x


class Cross(ThreeLayers):
    """Let the queries come from other rows."""

    def sources(self, x: Any) -> tuple[Any, Any, Any]:
        return x.flip(1), x, x


def exported(network: Any, opset: int = 17, batch: int | None = 2) -> onnx.ModelProto:
    torch.manual_seed(0)
    model = exported_module(network.eval(), torch.randn(2, TOKENS, WIDTH), opset)
    return model if batch is None else with_sizes(model, {"n": batch})


def plugins_alike(model: onnx.ModelProto, plugins: list[str]) -> list[str]:
    """Fuse a model, compare it with the plain one, and return its plugins and products, sorted."""
    fused = fuse(model, plugins).model
    onnx.checker.check_model(fused, full_check=True)
    x = np.random.default_rng(0).normal(size=(2, TOKENS, WIDTH)).astype(np.float32)
    (seen,), (wanted,) = (run(each, **{model.graph.input[0].name: x}) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    left = [node.op_type for node in fused.graph.node if node.op_type in ("MatMul", "Gemm", "Mul")]
    return sorted([*plugin_nodes(fused).values(), *left])


@pytest.mark.parametrize("opset", [pytest.param(11, marks=pytest.mark.slow), 17])
@pytest.mark.parametrize("scaled", [False, True], ids=["scores", "queries"])
def test_three_layers_are_one(scaled: bool, opset: int) -> None:
    model = exported(ThreeLayers(scaled=scaled), opset, batch=None)
    for batch in (None, 2):
        sized = model if batch is None else with_sizes(model, {"n": batch})
        assert plugins_alike(sized, ["self_attention"]) == ["MatMul", "MatMul", "self_attention"], batch
        assert plugins_alike(sized, ["attention"]) == ["MatMul"] * 4 + ["attention"], batch


def test_a_mask_of_each_text() -> None:
    model = exported(Masked())
    assert plugins_alike(model, ["masked_self_attention"]) == ["MatMul", "MatMul", "masked_self_attention"]


@pytest.mark.parametrize("network", [Cross(), ThreeLayers(width_of_values=2 * DEPTH)], ids=["rows", "widths"])
def test_layers_of_other_rows_or_sizes_stay(network: Any) -> None:
    model = exported(network)
    fused = fuse(model, "all").model
    assert "self_attention" not in plugin_nodes(fused).values()
    assert {node.name for node in model.graph.node if node.op_type == "MatMul"} >= {
        node.name for node in fused.graph.node if node.op_type == "MatMul"
    }


def test_layers_stay_where_auto_takes_no_attention() -> None:
    model = exported(ThreeLayers())
    fused = fuse(model, "auto", [90]).model
    assert "self_attention" not in plugin_nodes(fused).values()  # it is small
    assert {"/layers.0/MatMul", "/layers.1/MatMul", "/layers.2/MatMul"} <= {node.name for node in fused.graph.node}
