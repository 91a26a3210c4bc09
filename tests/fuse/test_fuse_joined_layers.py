"""Layers of queries, keys and values are joined where a kernel takes their attention; results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

TOKENS, HEADS, DEPTH = 6, 3, 8
WIDTH = HEADS * DEPTH
WIDE = 168  # one head of so many numbers is wider than those that kernels take


class ThreeLayers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Hold an attention as transformers has it, with a layer each for queries, keys and values."""

    def __init__(
        self, width: int = WIDTH, heads: int = HEADS, *, scaled: bool = False, width_of_values: int | None = None
    ) -> None:
        super().__init__()
        widths = (width, width, width_of_values or width)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, outputs, bias=index != 1) for index, outputs in enumerate(widths)
        )
        self.out = torch.nn.Linear(widths[-1], width)
        self.heads = heads
        self.scaled = scaled

    def sources(self, x: Any) -> tuple[Any, Any, Any]:
        return x, x, x

    def forward(self, x: Any) -> Any:
        q, k, v = (layer(source) for layer, source in zip(self.layers, self.sources(x), strict=True))
        if self.scaled:  # as in Whisper, before the heads are parted
            q = q * DEPTH**-0.5
        q, k, v = (each.view(*each.shape[:2], self.heads, -1).transpose(1, 2) for each in (q, k, v))
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


def exported(
    network: Any, opset: int = 17, batch: int | None = 2, tokens: int = TOKENS, width: int = WIDTH
) -> onnx.ModelProto:
    torch.manual_seed(0)
    model = exported_module(network.eval(), torch.randn(2, tokens, width), opset)
    return model if batch is None else with_sizes(model, {"n": batch})


def plugins_alike(model: onnx.ModelProto, plugins: list[str]) -> list[str]:
    """Fuse a model, compare it with the plain one, and return its plugins and products, sorted."""
    fused = fuse(model, plugins).model
    onnx.checker.check_model(fused, full_check=True)
    (given,) = model.graph.input
    _, *sizes = (dim.dim_value for dim in given.type.tensor_type.shape.dim)
    x = np.random.default_rng(0).normal(size=(2, *sizes)).astype(np.float32)
    (seen,), (wanted,) = (run(each, **{given.name: x}) for each in (fused, model))
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


@pytest.mark.parametrize("network", [Cross(), ThreeLayers(width_of_values=2 * WIDTH)], ids=["rows", "widths"])
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


@pytest.mark.parametrize("heads", [(1, 21), (21, 1), (21, 1, 21)], ids=str)
def test_only_layers_stay_whose_attention_no_kernel_takes(heads: tuple[int, ...]) -> None:
    model = exported(torch.nn.Sequential(*(ThreeLayers(WIDE, count) for count in heads)), width=WIDE)
    joined, alone = ["MatMul"] * 2 + ["self_attention"], ["MatMul"] * 6 + ["Mul"]
    expected = [each for count in heads for each in (alone if count == 1 else joined)]
    assert plugins_alike(model, ["self_attention"]) == sorted(expected)


def test_layers_stay_whose_attention_auto_would_take_in_a_group_alone() -> None:
    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.large, self.small = ThreeLayers(192), ThreeLayers(192)

        def forward(self, x: Any) -> Any:
            return self.small(self.large(x)[:, :200].sin()).sin()

    model = convert(exported(Network(), batch=1, tokens=400, width=192), "fp16")
    fused = fuse(model, "auto", [90]).model
    assert list(plugin_nodes(fused).values()) == ["self_attention"]  # of the large one
    names = {node.name for node in fused.graph.node}
    assert {"/small/layers.0/MatMul", "/small/layers.1/MatMul", "/small/layers.2/MatMul"} <= names
    x = np.random.default_rng(0).normal(size=(1, 400, 192)).astype(np.float32)
    (seen,), (wanted,) = (run(each, x) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=4e-3)
