"""Layer norms that each image scales and shifts, as in diffusion transformers, and the sums with a gate before them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run
from torch_export import exported_module

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

NORM, ADDS, GATES = "modulated_layer_norm", "add_modulated_layer_norm", "gate_add_modulated_layer_norm"
IMAGES, TOKENS, WIDTH = 2, 5, 16
OPSETS = [11, 17, pytest.param(18, marks=pytest.mark.slow), 23]


class Modulated(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Normalise tokens; an image's factors and shifts follow from its first token."""

    def __init__(self, affine: bool = False) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH, elementwise_affine=affine, eps=1e-3)
        if affine:
            torch.nn.init.normal_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor, shift, _ = self.of_image(x)
        return self.norm(x) * (1 + factor) + shift

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [(x[:, 0] * (i + 1)).sin()[:, None] for i in range(3)]


class Gated(Modulated):
    """Add what a gate lets through before, and read the sum again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor, shift, gate = self.of_image(x)
        total = x + gate * x.cos()
        return total + (self.norm(total) * (1 + factor) + shift)


class Summed(Gated):
    """Add without a gate."""

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [*super().of_image(x)[:2], torch.ones(())]


class InParts(Gated):
    """Have a layer that gives what an image has side by side, as a DiT."""

    parts = 6

    def __init__(self) -> None:
        super().__init__(affine=True)
        self.layer = torch.nn.Linear(WIDTH, self.parts * WIDTH)

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        shift, factor, gate = self.layer(x[:, 0]).chunk(self.parts, dim=1)[:3]
        return [factor[:, None], shift[:, None], gate[:, None]]


class WithTable(InParts):
    """Add a table to what an image has, one part after another, as a PixArt."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(self.parts, WIDTH))

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        parts = (self.table[None] + self.layer(x[:, 0]).reshape(-1, self.parts, WIDTH)).chunk(self.parts, dim=1)
        return [parts[4], parts[3], parts[5]]


class Many(InParts):
    """Have more parts than the kernel can tell apart."""

    parts = 70

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        parts = self.layer(x[:, 0]).chunk(self.parts, dim=1)
        return [parts[i][:, None] for i in (64, 69, 66)]


class Layers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Have dense layers one after the other, each behind a norm, with a gate, as a DiT has its perceptrons."""

    def __init__(self) -> None:
        super().__init__()
        width = 8 * WIDTH
        self.of_images = torch.nn.ModuleList(torch.nn.Linear(width, 3 * width) for _ in range(4))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(4))
        self.norm = torch.nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = x[:, 0]
        for of_image, layer in zip(self.of_images, self.layers, strict=True):
            shift, factor, gate = of_image(image)[:, None].chunk(3, dim=2)
            x = x + gate * layer(self.norm(x) * (1 + factor) + shift)
        return x


class NumberFirst(InParts):
    """Add 1 before the factors get their axis, as the last norm of diffusers' transformers."""

    number = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor, shift = self.layer(x[:, 0]).chunk(self.parts, dim=1)[:2]
        return self.norm(x) * (self.number + factor)[:, None] + shift[:, None]


class OtherNumberFirst(NumberFirst):
    """Add another number."""

    number = 2


class OfEach(InParts):
    """Have a factor of each image and column, whose number is added before the columns are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.layer(x[:, 0])[:, :TOKENS]
        return self.norm(x) * (1 + factor)[:, :, None] + factor[:, :, None]


class Twice(InParts):
    """Modulate one norm twice, as a layer with two attentions of Stable Diffusion 3.5."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part[:, None] for part in self.layer(x[:, 0]).chunk(self.parts, dim=1)]
        total = x + parts[4] * x.cos()
        norm = self.norm(total)
        return total + (norm * (1 + parts[0]) + parts[1]).sin() * (norm * self.of_second(parts[2]) + parts[3])

    def of_second(self, factor: torch.Tensor) -> torch.Tensor:
        return 1 + factor


class TwiceOtherwise(Twice):
    """Modulate a norm by 1 + factor once, and otherwise once."""

    def of_second(self, factor: torch.Tensor) -> torch.Tensor:
        return factor


class Uneven(InParts):
    """Have parts that begin anywhere."""

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        layer = self.layer(x[:, 0])
        return [layer[:, None, start : start + WIDTH] for start in (3, 3 + WIDTH, 3 + 2 * WIDTH)]


class OfTokens(Modulated):
    """Have factors for each token."""

    def of_image(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [(x * (i + 1)).sin() for i in range(3)]


class WithoutOne(Modulated):
    """Multiply by the factors alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor, shift, _ = self.of_image(x)
        return self.norm(x) * (2 + factor) + shift


def exported(module: torch.nn.Module, opset: int = 17) -> onnx.ModelProto:
    torch.manual_seed(3)
    return exported_module(module.eval(), torch.randn(IMAGES, TOKENS, WIDTH), opset)


def taken(model: onnx.ModelProto, plugin: str) -> Counter[str]:
    """Return the plugins that a model gets by name; its results stay the same."""
    fused = fuse(model, [plugin]).model
    x = np.random.default_rng(4).normal(size=(IMAGES, TOKENS, WIDTH)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("opset", OPSETS)
def test_a_norm_of_images_is_one_kernel(opset: int) -> None:
    assert taken(exported(Modulated(affine=True), opset), NORM) == {NORM: 1}


@pytest.mark.parametrize("opset", OPSETS[1:])
def test_the_norm_may_have_no_weights_of_its_own(opset: int) -> None:
    assert taken(exported(Modulated(), opset), NORM) == {NORM: 1}


@pytest.mark.parametrize("opset", OPSETS)
def test_the_gate_and_the_sum_are_in_it(opset: int) -> None:
    assert taken(exported(Gated(affine=True), opset), GATES) == {GATES: 1}


@pytest.mark.parametrize("opset", OPSETS)
def test_the_sum_may_have_no_gate(opset: int) -> None:
    assert taken(exported(Summed(affine=True), opset), ADDS) == {ADDS: 1}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("module", "parts"), [(InParts, (1, 0, 2)), (WithTable, (4, 3, 5))])
def test_parts_of_a_tensor_are_read_where_they_lie(
    module: type[InParts], parts: tuple[int, int, int], opset: int
) -> None:
    model = exported(module(), opset)
    assert taken(model, GATES) == {GATES: 1}
    fused = fuse(model, [GATES]).model
    (plugin,) = (node for node in fused.graph.node if node.op_type == GATES)
    seen = {entry.name: entry.i for entry in plugin.attribute}
    assert tuple(seen[f"{name}_part"] for name in ("factor", "shift", "gate")) == parts
    sliced = [node for node in fused.graph.node if node.op_type in ("Slice", "Split")]
    assert not {name for node in sliced for name in node.output} & set(plugin.input)
    assert len(sliced) < len([node for node in model.graph.node if node.op_type in ("Slice", "Split")])


@pytest.mark.parametrize("module", [Uneven, Many])
def test_other_parts_are_slices(module: type[InParts]) -> None:
    model = exported(module())
    assert taken(model, GATES) == {GATES: 1}
    (plugin,) = (node for node in fuse(model, [GATES]).model.graph.node if node.op_type == GATES)
    assert {entry.i for entry in plugin.attribute if entry.name.endswith("_part")} == {0}


@pytest.mark.parametrize("opset", OPSETS)
def test_the_number_may_be_added_before_the_axis(opset: int) -> None:
    model = exported(NumberFirst(), opset)
    assert taken(model, NORM) == {NORM: 1}
    (plugin,) = (node for node in fuse(model, [NORM]).model.graph.node if node.op_type == NORM)
    assert {entry.name: entry.i for entry in plugin.attribute if entry.name.endswith("_part")} == {
        "factor_part": 0,
        "shift_part": 1,
    }


@pytest.mark.parametrize("opset", OPSETS[1:])
def test_a_norm_that_is_modulated_twice_is_computed_twice(opset: int) -> None:
    assert taken(exported(Twice(), opset), f"{NORM},{GATES}") == {NORM: 1, GATES: 1}


@pytest.mark.parametrize("module", [Twice, TwiceOtherwise])
def test_a_norm_is_computed_once_where_it_is_taken_alone(module: type[Twice]) -> None:
    assert taken(exported(module()), "layer_norm") == {"layer_norm": 1}


@pytest.mark.parametrize("module", [OfTokens, WithoutOne, OtherNumberFirst, OfEach, TwiceOtherwise])
def test_other_factors_are_left(module: type[Modulated]) -> None:
    with pytest.raises(LenetTrtError, match="no place for it"):
        fuse(exported(module()), [NORM])


def test_what_gives_parts_is_not_around_a_group() -> None:
    torch.manual_seed(3)
    model = exported_module(Layers().half().eval(), torch.randn(2, 100, 8 * WIDTH, dtype=torch.float16), 17)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    fused = fuse(with_sizes(model, {batch: 2}), "auto", [90]).model
    assert Counter(plugin_nodes(fused).values()) == {NORM: 1, GATES: 3, "linear_half": 3, "linear_half_gate_add": 1}
    views = [tuple(node.input) for node in fused.graph.node if node.op_type == "Reshape"]
    assert len(views) == len(set(views)), "plugins that read one tensor share its view"
