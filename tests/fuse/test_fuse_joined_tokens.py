"""Attention over the tokens of two inputs, as in Stable Diffusion 3: heads move last, and tokens are joined once."""

from __future__ import annotations

from collections import Counter
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

IMAGE, TEXT, HEADS, DEPTH = 6, 4, 3, 16
WIDTH = HEADS * DEPTH
ONE, SEPARATE, NORM = "self_attention", "attention", "rms_norm"
OPSETS = [pytest.param(14, marks=pytest.mark.slow), 17, pytest.param(18, marks=pytest.mark.slow), 23]


class RmsNorm(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Normalise the numbers of a head, or of another axis, as diffusers does."""

    axis = -1

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(DEPTH) + 0.5)

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(self.axis, keepdim=True) + 1e-6) * self.weight


class Tokens(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Give queries, keys and values [n, heads, tokens, d] of some tokens."""

    def __init__(self, norm: Any = None) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norms = torch.nn.ModuleList(torch.nn.Identity() if norm is None else norm() for _ in range(2))

    def forward(self, x: Any) -> list[Any]:
        q, k, v = (layer(x).view(*x.shape[:2], HEADS, DEPTH).transpose(1, 2) for layer in self.layers)
        return [*(norm(each) for norm, each in zip(self.norms, (q, k), strict=True)), v]


class Joint(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attend to all tokens, those of the image first; then each of both has a layer of its own."""

    def __init__(self, norm: Any = None, tokens: int = IMAGE) -> None:
        super().__init__()
        self.image, self.text = Tokens(norm), Tokens(norm)
        self.out = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.tokens = tokens

    def joined(self, image: Any, text: Any) -> list[Any]:
        parts = zip(self.image(image), self.text(text), strict=True)
        return [torch.cat(each, dim=2) for each in parts]

    def forward(self, x: Any) -> Any:
        image, text = x[:, : self.tokens], x[:, self.tokens :]
        y = torch.nn.functional.scaled_dot_product_attention(*self.joined(image, text))
        y = y.transpose(1, 2).reshape(x.shape[0], -1, WIDTH)
        results = y[:, : self.tokens], y[:, self.tokens :]
        return torch.cat([layer(each) for layer, each in zip(self.out, results, strict=True)], dim=1)


class Alone(Joint):
    """Attend to the image alone, as the second attention of a layer of Stable Diffusion 3.5."""

    def joined(self, image: Any, text: Any) -> list[Any]:
        q, k, v = self.image(torch.cat([image, text], dim=1))
        return [q, k, v]


class JointHeads(Joint):
    """Join heads, not tokens."""

    axis = 1

    def forward(self, x: Any) -> Any:
        parts = list(zip(self.image(x), self.text(x.sin()), strict=True))
        y = torch.nn.functional.scaled_dot_product_attention(*(torch.cat(each, dim=self.axis) for each in parts))
        return self.of_results(y.transpose(1, 2).flatten(2), parts[0][0])

    def of_results(self, y: Any, queries: Any) -> Any:
        return y


class Seen(JointHeads):
    """Join tokens, and read queries of one part once more."""

    axis = 2

    def of_results(self, y: Any, queries: Any) -> Any:
        return y + queries.mean()


class AcrossTokens(RmsNorm):
    """Normalise over the tokens."""

    axis = -2


class AcrossHeads(RmsNorm):
    """Normalise over the heads."""

    axis = 1


class OtherRows(Joint):
    """Take the values of the text from other rows."""

    def joined(self, image: Any, text: Any) -> list[Any]:
        parts = zip(self.image(image), [*self.text(text)[:2], self.text(text.sin())[2]], strict=True)
        return [torch.cat(each, dim=2) for each in parts]


class TextFirst(Joint):
    """Join keys in another order than queries, and values with them."""

    def joined(self, image: Any, text: Any) -> list[Any]:
        (q, _, _), (_, k, v) = super().joined(image, text), super().joined(text, image)
        return [q, k, v]


class FeaturesMoved(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Exchange the halves of the features."""

    def forward(self, x: Any) -> Any:
        return torch.cat([x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], dim=2)


def exported(network: Any, opset: int = 17, batch: int | None = 2, tokens: int = IMAGE + TEXT) -> onnx.ModelProto:
    torch.manual_seed(0)
    model = exported_module(network.eval(), torch.randn(2, tokens, WIDTH), opset)
    (axis, *_) = (dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim)
    return model if batch is None else with_sizes(model, {axis: batch})


def fused_alike(model: onnx.ModelProto, plugins: list[str]) -> Counter[str]:
    """Fuse a model, compare it with the plain one, and count its operators; of ``Concat`` those over axis 1 or 2."""
    fused = fuse(model, plugins).model
    onnx.checker.check_model(fused, full_check=True)
    x = np.random.default_rng(0).normal(size=(2, IMAGE + TEXT, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    return Counter(node.op_type for node in fused.graph.node if node.op_type != "Concat" or axis_of(node) > 0)


def axis_of(node: onnx.NodeProto) -> int:
    return next(entry.i for entry in node.attribute if entry.name == "axis")


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("batch", [None, 2])
def test_tokens_are_joined_once(opset: int, batch: int | None) -> None:
    model = exported(Joint(), opset, batch)
    seen = fused_alike(model, [ONE])
    assert (seen[ONE], seen["MatMul"], seen["Transpose"], seen["Concat"]) == (1, 4, 0, 2)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("batch", [None, 2])
def test_heads_are_moved_behind_norms_and_joints(opset: int, batch: int | None) -> None:
    model = exported(Joint(RmsNorm), opset, batch)
    seen = fused_alike(model, [SEPARATE, NORM])
    assert (seen[SEPARATE], seen[NORM], seen["MatMul"], seen["Transpose"]) == (1, 4, 8, 0)


@pytest.mark.parametrize("opset", OPSETS)
def test_heads_are_moved_behind_norms_alone(opset: int) -> None:
    seen = fused_alike(exported(Alone(RmsNorm), opset), [SEPARATE, NORM])
    assert (seen[SEPARATE], seen[NORM], seen["Transpose"]) == (1, 2, 0)


def test_joined_tokens_without_norms_may_be_separate_tensors() -> None:
    seen = fused_alike(exported(Joint()), [SEPARATE])
    assert (seen[SEPARATE], seen["MatMul"], seen["Transpose"], seen["Concat"]) == (1, 8, 0, 4)


@pytest.mark.parametrize("network", [OtherRows(), TextFirst()], ids=["rows", "order"])
def test_layers_of_other_rows_stay(network: Joint) -> None:
    model = exported(network)
    plugins = plugin_nodes(fuse(model, "all").model).values()
    assert ONE not in plugins
    assert SEPARATE in plugins
    assert fused_alike(model, [SEPARATE])["Transpose"] == 0


@pytest.mark.parametrize("network", [JointHeads(), Joint(AcrossTokens), Joint(AcrossHeads), Seen(RmsNorm)], ids=type)
def test_heads_stay_where_more_than_tokens_is_joined_or_normalised(network: Joint) -> None:
    model = exported(network)
    fused = fuse(model, [SEPARATE]).model
    assert not [name for node in fused.graph.node for name in node.output if "heads_second" in name]
    assert fused_alike(model, [SEPARATE])[SEPARATE] == 1


def test_heads_stay_where_auto_takes_no_attention() -> None:
    fused = fuse(convert(exported(Joint(RmsNorm)), "fp16"), "auto", [90]).model
    assert SEPARATE not in plugin_nodes(fused).values()  # it is small
    assert not [name for node in fused.graph.node for name in node.output if "heads_second" in name]


@pytest.mark.parametrize(
    ("between", "expected"), [(torch.nn.Identity(), {"linear_half": 8, ONE: 2}), (FeaturesMoved(), {})]
)
def test_what_joins_and_parts_tokens_is_no_layer_around_a_group(between: Any, expected: dict[str, int]) -> None:
    network = torch.nn.Sequential(Joint(tokens=120), between, Joint(tokens=120))
    model = convert(exported(network, tokens=240), "fp16")
    fused = fuse(model, "auto", [90]).model
    assert Counter(plugin_nodes(fused).values()) == expected
    x = np.random.default_rng(0).normal(size=(2, 240, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-3)
