"""Attention of one tensor is found as exporters write it; movement of rows goes into it; results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.constant_sizes import with_known_sizes
from lenet_trt.fuse.normal_form import attention_form, normal_forms
from lenet_trt.fuse.row_order import with_rows_in_order
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

TOKENS, HEADS, DEPTH = 6, 3, 8
WIDTH = HEADS * DEPTH
PLAIN, MASKED = ["self_attention"], ["masked_self_attention"]
OPSETS = pytest.mark.parametrize("opset", [11, 17, 20])
# Of what differs little the other opsets are left to the slow tests.
FEW_OPSETS = pytest.mark.parametrize(
    "opset", [pytest.param(11, marks=pytest.mark.slow), 17, pytest.param(20, marks=pytest.mark.slow)]
)


class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Hold both dense layers of a self-attention; ``parts`` brings [n, tokens, 3 width] to queries, keys and values."""

    def __init__(self, parts: Callable[[Any], Any], mask: Any = None, back: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.parts = parts
        self.back = back or (lambda y: y.transpose(1, 2).flatten(2))
        if mask is not None:
            self.register_buffer("mask", mask)

    def forward(self, x: Any) -> Any:
        q, k, v = self.parts(self.qkv(x))
        scores = q @ k.transpose(-2, -1) * DEPTH**-0.5
        if hasattr(self, "mask"):
            scores = scores + self.mask
        return self.out(self.back(scores.softmax(-1) @ v)) + x


def as_in_timm(x: Any) -> Any:
    return x.reshape(x.shape[0], -1, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)


def in_chunks(x: Any) -> Any:
    return [part.view(*part.shape[:2], HEADS, DEPTH).transpose(1, 2) for part in x.chunk(3, dim=-1)]


def in_slices(x: Any) -> Any:
    parts = [x[..., part * WIDTH : (part + 1) * WIDTH] for part in range(3)]
    return [part.reshape(part.shape[0], TOKENS, HEADS, DEPTH).permute(0, 2, 1, 3) for part in parts]


def keys_first(x: Any) -> Any:
    q, k, v = as_in_timm(x)
    return k, q, v


def parts_within_heads(x: Any) -> Any:
    return x.reshape(x.shape[0], -1, HEADS, 3, DEPTH).permute(3, 0, 2, 1, 4).unbind(0)


def heads_within_depth(x: Any) -> Any:
    return x.reshape(x.shape[0], -1, 3, DEPTH, HEADS).permute(2, 0, 4, 1, 3).unbind(0)


def exported(network: Any, opset: int = 17, shape: tuple[int, ...] = (TOKENS, WIDTH), batch: int | None = 2) -> Any:
    torch.manual_seed(0)
    model = exported_module(network.eval(), torch.randn(2, *shape), opset)
    return model if batch is None else with_sizes(model, {"n": batch})


def in_order(model: onnx.ModelProto) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Exchange layers and movement, as ``fuse`` does before it looks for places."""
    sized = with_known_sizes(model, attention_form(model))
    return with_rows_in_order(sized, attention_form(sized))


def fused_alike(model: onnx.ModelProto, plugins: list[str]) -> list[onnx.NodeProto]:
    """Fuse a model, compare it with the plain one, and return its nodes that compute or move floats."""
    fused = fuse(model, plugins).model
    onnx.checker.check_model(fused, full_check=True)
    (given,) = model.graph.input
    shape = [dim.dim_value or 2 for dim in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (seen,), (wanted,) = (run(each, **{given.name: x}) for each in (fused, model))
    assert seen.shape == wanted.shape
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    floats = {value.name for value in onnx.shape_inference.infer_shapes(fused).graph.value_info if is_float(value)}
    floats |= {value.name for value in fused.graph.output}
    return [
        node for node in fused.graph.node if node.op_type not in ("Reshape", "Constant") and node.output[0] in floats
    ]


def is_float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT)


def operators(model: onnx.ModelProto, plugins: list[str] = PLAIN) -> list[str]:
    return [node.op_type for node in fused_alike(model, plugins)]


@FEW_OPSETS
@pytest.mark.parametrize("parts", [as_in_timm, in_chunks, in_slices, parts_within_heads])
def test_queries_keys_and_values_of_one_layer(parts: Callable[[Any], Any], opset: int) -> None:
    model = exported(Attention(parts), opset, batch=None)
    for batch in (1, 2):
        left = operators(with_sizes(model, {"n": batch}))
        assert left.count("self_attention") == 1, batch
        assert set(left) <= {"self_attention", "MatMul", "Gemm", "Add"}, batch


@pytest.mark.parametrize("parts", [keys_first, heads_within_depth])
def test_other_orders_are_no_such_attention(parts: Callable[[Any], Any]) -> None:
    model = exported(Attention(parts))
    assert not any(node.op_type == "SelfAttention" for node in normal_forms(model)[0].nodes)
    assert operators(model, ["attention"]).count("attention") == 1


def test_other_orders_of_the_results_are_no_such_attention() -> None:
    model = exported(Attention(as_in_timm, back=lambda y: y.permute(0, 2, 3, 1).flatten(2)))
    assert not any(node.op_type == "SelfAttention" for node in normal_forms(model)[0].nodes)


@FEW_OPSETS
@pytest.mark.parametrize("shape", [(TOKENS,), (TOKENS, TOKENS), (1, HEADS, TOKENS, TOKENS), (HEADS, 1, TOKENS)])
def test_masks(shape: tuple[int, ...], opset: int) -> None:
    left = operators(exported(Attention(as_in_timm, torch.randn(shape)), opset), MASKED)
    assert left.count("masked_self_attention") == 1
    assert set(left) <= {"masked_self_attention", "MatMul", "Gemm", "Add"}


def test_a_mask_of_each_image() -> None:
    """Images of a fixed number are as windows of one image, each of which has a mask."""
    model = exported(Attention(as_in_timm, torch.randn(2, 1, TOKENS, TOKENS)))
    assert operators(model, MASKED).count("masked_self_attention") == 1


class TokensFirst(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Write self-attention as torch.nn.MultiheadAttention does: tokens first, images and heads in one axis."""

    def __init__(self, batch_first: bool, heads: int = HEADS, width: int = WIDTH) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.batch_first = batch_first
        self.heads, self.width = heads, width

    def forward(self, x: Any) -> Any:
        first = x.transpose(0, 1) if self.batch_first else x
        tokens, images = first.shape[:2]
        depth = self.width // self.heads
        parts = self.qkv(first).view(tokens, images, 3, self.width).unsqueeze(0).transpose(0, -2).squeeze(-2)
        q, k, v = (parts[i].reshape(tokens, images * self.heads, depth).transpose(0, 1) for i in range(3))
        q, k, v = (each.view(images, self.heads, tokens, depth) for each in (q, k, v))
        y = (q * depth**-0.5 @ k.transpose(-2, -1)).softmax(-1) @ v
        y = self.out(y.permute(2, 0, 1, 3).reshape(tokens * images, self.width)).view(tokens, images, self.width)
        return x + (y.transpose(0, 1) if self.batch_first else y)


@OPSETS
@pytest.mark.parametrize("batch_first", [False, True])
def test_tokens_first(batch_first: bool, opset: int) -> None:
    model = exported(TokensFirst(batch_first), opset, (4, WIDTH), batch=TOKENS)
    left = fused_alike(model, PLAIN)
    (plugin,) = [node for node in left if node.domain == DOMAIN]
    assert plugin.op_type == "self_attention"
    assert {node.op_type for node in left} <= {"self_attention", "MatMul", "Gemm", "Add"}


def test_multihead_attention_of_torch() -> None:
    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    left = operators(exported(Network()))
    assert left.count("self_attention") == 1
    assert "Transpose" not in left


SIDE, WINDOW = 6, 3


class Windows(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Write the attention of an image's windows as torchvision's Swin does, of [n, rows, columns, width].

    ``expanded``: the mask is expanded over the images, and has the bias added, as transformers' Swin does.
    """

    def __init__(self, shift: int, back: int | None = None, *, expanded: bool = False) -> None:
        super().__init__()
        self.attention = Attention(as_in_timm, torch.randn(1, HEADS, WINDOW**2, WINDOW**2))
        self.shift, self.back = shift, shift if back is None else back
        self.side = SIDE // WINDOW
        self.expanded = expanded
        self.register_buffer("mask", torch.randn(self.side**2, WINDOW**2, WINDOW**2))

    def forward(self, x: Any) -> Any:
        side, tokens = self.side, WINDOW**2
        moved = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        parted = moved.view(x.shape[0], side, WINDOW, side, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5)
        parted = parted.reshape(-1, tokens, WIDTH)
        q, k, v = as_in_timm(self.attention.qkv(parted))
        scores = q * DEPTH**-0.5 @ k.transpose(-2, -1)
        if self.expanded:
            mask = self.mask[None, :, None].expand(x.shape[0], -1, -1, -1, -1)
            scores = scores + (mask.reshape(-1, 1, tokens, tokens) + self.attention.mask)
        else:
            scores = scores + self.attention.mask
        if self.shift and not self.expanded:
            scores = scores.view(x.shape[0], side**2, HEADS, tokens, tokens) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, HEADS, tokens, tokens)
        y = self.attention.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(parted.shape[0], tokens, WIDTH))
        y = y.view(x.shape[0], side, side, WINDOW, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        return x + (torch.roll(y, (self.back, self.back), (1, 2)) if self.back else y)


@FEW_OPSETS
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_windows_of_an_image_and_their_shift(shift: int, opset: int) -> None:
    model = exported(Windows(shift), opset, (SIDE, SIDE, WIDTH), batch=None)
    for batch in (None, 1, 2):
        left = fused_alike(model if batch is None else with_sizes(model, {"n": batch}), MASKED)
        (plugin,) = [node for node in left if node.domain == DOMAIN]
        assert {entry.name: entry.i for entry in plugin.attribute}["shift"] == shift, batch
        assert {node.op_type for node in left} <= {"masked_self_attention", "MatMul", "Add"}, batch


@FEW_OPSETS
def test_a_mask_of_windows_that_is_expanded_over_the_images(opset: int) -> None:
    model = exported(Windows(1, expanded=True), opset, (SIDE, SIDE, WIDTH), batch=None)
    for batch in (1, 2, 3):
        left = fused_alike(with_sizes(model, {"n": batch}), MASKED)
        assert {node.op_type for node in left} <= {"masked_self_attention", "MatMul", "Add"}, batch
    other = exported(Windows(1, expanded=True), opset, (SIDE, SIDE, WIDTH), batch=None)
    assert operators(other, ["masked_attention"]).count("masked_attention") == 1


@pytest.mark.parametrize("shift", [0, 1])
def test_rows_are_put_in_order_while_the_batch_is_open(shift: int) -> None:
    """The exporter reads sizes of what lies between layers and windows; they come from the network's input then."""
    model = exported(Windows(shift), 17, (SIDE, SIDE, WIDTH), batch=None)
    reordered, moved = in_order(model)
    assert len(moved) == 1
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, SIDE, SIDE, WIDTH)).astype(np.float32)
        (seen,), (wanted,) = (run(each, **{model.graph.input[0].name: x}) for each in (reordered, model))
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


def test_windows_that_are_not_rolled_back() -> None:
    """The layers come before the windows, but a kernel that shifts would bring results to other places."""
    model = exported(Windows(1, back=2), 17, (SIDE, SIDE, WIDTH))
    left = operators(model, MASKED)
    assert left.count("masked_self_attention") == 1
    assert left.count("Slice") == 8


def test_layers_stay_where_no_kernel_takes_the_attention() -> None:
    model = exported(Windows(1), 17, (SIDE, SIDE, WIDTH))
    assert len(in_order(model)[1]) == 1
    fused = fuse(model, ["masked_attention"]).model
    kept = {node.name for node in model.graph.node if node.op_type in ("MatMul", "Slice", "Concat")}
    assert len(kept & {node.name for node in fused.graph.node}) >= 8
    assert not any("self" in name for name in plugin_nodes(fuse(model, "auto", [90]).model).values())  # it is small


@pytest.mark.parametrize("heads", [(1, 21), (21, 1)], ids=str)
def test_only_layers_stay_whose_attention_no_kernel_takes(heads: tuple[int, int]) -> None:
    width = 168  # one head of so many numbers is wider than those that kernels take
    network = torch.nn.Sequential(*(TokensFirst(batch_first=True, heads=count, width=width) for count in heads))
    model = exported(network, 17, (4, width), batch=TOKENS)
    assert len(in_order(model)[1]) == 2
    left = operators(model)
    assert left.count("self_attention") == 1
    kept = {node.name for node in fuse(model, PLAIN).model.graph.node if node.op_type in ("MatMul", "Gemm")}
    for index, count in enumerate(heads):
        layers = {f"/{index}/qkv/MatMul", f"/{index}/out/Gemm"}
        assert (layers <= kept) == (count == 1), kept


def test_what_else_is_read_stays() -> None:
    """Windows that are an output of the network too stay before the layer."""

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention = TokensFirst(batch_first=False)

        def forward(self, x: Any) -> Any:
            first = x.transpose(0, 1)
            return self.attention(first).transpose(0, 1) + first.sum()

    model = exported(Network(), 17, (4, WIDTH), batch=TOKENS)
    assert not in_order(model)[1]
    assert operators(model).count("self_attention") == 1


def test_rows_that_others_are_joined_to_stay() -> None:
    """A class token comes before the rows of an image: the layer cannot come before both."""

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention = TokensFirst(batch_first=True)
            self.register_buffer("token", torch.randn(1, 2, WIDTH))

        def forward(self, x: Any) -> Any:
            y = self.attention.qkv(torch.cat((self.token, x.transpose(0, 1)), 0))
            parts = y.view(y.shape[0], 2, 3, HEADS, DEPTH).permute(2, 1, 3, 0, 4)
            weights = (parts[0] @ parts[1].transpose(-2, -1)).softmax(-1)
            return self.attention.out((weights @ parts[2]).permute(2, 0, 1, 3).flatten(2)).transpose(0, 1)

    model = exported(Network())
    assert not in_order(model)[1]
    assert operators(model).count("self_attention") == 1


def test_an_open_batch() -> None:
    model = exported(Attention(in_slices), 17, batch=None)
    assert operators(model).count("self_attention") == 1
