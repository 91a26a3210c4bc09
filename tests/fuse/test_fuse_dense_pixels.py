"""An MLP of pointwise convolutions becomes dense layers where kernels take these, and stays what it is elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.ordered_places import places_in_order
from lenet_trt.fuse.stage import chosen_kernels, fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.optimize.space import Space
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

CHANNELS, SIDE = 40, 6
BLOCK = {"depthwise_layer_norm": 1, "linear_half": 1, "linear_half_add": 1}


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Compute a block of a ConvNeXt as timm does with ``conv_mlp=True``."""

    def __init__(
        self,
        *,
        conv_mlp: bool = True,
        activation: torch.nn.Module | None = None,
        size: int = 1,
        outputs: int = CHANNELS,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        self.depthwise = torch.nn.Conv2d(CHANNELS, CHANNELS, 7, padding=3, groups=CHANNELS)
        self.norm = torch.nn.LayerNorm(CHANNELS, eps=1e-6)
        self.scale = torch.nn.Parameter(torch.rand(outputs)) if scaled else None
        self.activation = activation or torch.nn.GELU()
        self.conv_mlp = conv_mlp
        if conv_mlp:
            self.first = torch.nn.Conv2d(CHANNELS, 4 * CHANNELS, size, padding=size // 2)
            self.last = torch.nn.Conv2d(4 * CHANNELS, outputs, 1)
        else:
            self.first, self.last = torch.nn.Linear(CHANNELS, 4 * CHANNELS), torch.nn.Linear(4 * CHANNELS, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = y.permute(0, 3, 1, 2) if self.conv_mlp else y
        y = self.last(self.between(self.activation(self.first(y))))
        y = y if self.conv_mlp else y.permute(0, 3, 1, 2)
        return x + (y if self.scale is None else y * self.scale.reshape(1, -1, 1, 1))

    def between(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


class Pooled(Block):
    """Have something else than an activation between the convolutions."""

    def between(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden - hidden.mean(1, keepdim=True)


class Watched(Block):
    """Give what lies inside as well."""

    def forward(self, x: torch.Tensor) -> Any:
        hidden: list[torch.Tensor] = []
        self.first.register_forward_hook(lambda _, __, y: hidden.append(y))
        return super().forward(x), hidden[0]


def exported(module: torch.nn.Module, dtype: torch.dtype = torch.float16, opset: int = 17) -> onnx.ModelProto:
    torch.manual_seed(5)
    x = torch.randn(2, CHANNELS, SIDE, SIDE, dtype=dtype)
    return exported_module(module.to(dtype).eval(), x, opset)


def taken(model: onnx.ModelProto, plugins: Any = "auto", **given: Any) -> Counter[str]:
    """Return the plugins that a model gets; its results stay the same."""
    fused = fuse(model, plugins, architectures=[90], **given).model
    kind = np.float16 if model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 else np.float32
    x = np.random.default_rng(3).normal(size=(2, CHANNELS, SIDE, SIDE)).astype(kind)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-2)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    "activation", [torch.nn.GELU(), torch.nn.ReLU(), torch.nn.SiLU(), torch.nn.GELU("tanh")], ids=str
)
def test_the_kernels_are_those_of_a_block_with_dense_layers(activation: torch.nn.Module, scaled: bool) -> None:
    pointwise, dense = (
        exported(Block(conv_mlp=conv_mlp, activation=activation, scaled=scaled)) for conv_mlp in (True, False)
    )
    assert taken(pointwise) == taken(dense) == BLOCK


@pytest.mark.parametrize("opset", [17, 20])
def test_nothing_else_is_left_of_the_block(opset: int) -> None:
    fused = fuse(exported(Block(), opset=opset), architectures=[90]).model
    assert Counter(node.op_type for node in fused.graph.node) == {**BLOCK, "Reshape": 2}  # linear_half has rows


def test_the_batch_may_be_open_or_known() -> None:
    model = exported(Block())
    assert taken(model, usual={"n": 8}) == taken(with_sizes(model, {"n": 2})) == BLOCK


def test_kernels_that_are_named_are_enough() -> None:
    assert taken(exported(Block()), ("linear_half", "linear_half_add")) == {"linear_half": 1, "linear_half_add": 1}


def test_all_plugins_and_what_is_measured_are_of_dense_layers_too() -> None:
    model = exported(Block())
    assert taken(model, "all") == BLOCK
    assert Counter(piece.kernel for piece in Space(model).candidates[-1].pieces) == BLOCK


@pytest.mark.parametrize(
    "module",
    [Block(size=3), Block(outputs=1), Pooled(), Watched()],
    ids=["3x3", "one output", "other nodes between", "a result inside"],
)
def test_another_mlp_stays_what_it_is(module: torch.nn.Module) -> None:
    model = exported(module)
    assert places_in_order(model, chosen_kernels("all"))[0] is model


def test_the_file_stays_what_it_is_where_no_kernel_takes_the_layers() -> None:
    model = exported(Block())
    assert places_in_order(model, chosen_kernels(["linear_half"]))[0] is model
    assert places_in_order(model, chosen_kernels(["depthwise_layer_norm"]))[0] is model
    in_floats = exported(Block(), torch.float32)
    assert places_in_order(in_floats, chosen_kernels("all"))[0] is in_floats
    assert places_in_order(model, chosen_kernels("auto"), [80])[0] is model
    assert places_in_order(model, chosen_kernels("auto"), [80], {"n": 8})[0] is model
