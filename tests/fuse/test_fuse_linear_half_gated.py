"""Gated dense layers, as feed-forward layers of language models are: where the kernel takes them, and where not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from layered_model import LayeredModel, fused_like_plain, operators_of
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes

GATED, DENSE = "linear_half_gated", "linear_half"
INPUTS, OUTPUTS, TOKENS = 40, 48, 7
(ACTIVATION,) = registry.kernel(GATED).attributes


class Texts(LayeredModel):
    """Add dense layers of the words of texts."""

    def __init__(self, n: int | str = 2, *sizes: int, **more: Any) -> None:
        super().__init__(n, *(sizes or (TOKENS, INPUTS)), **more)

    def dense(self, x: str, outputs: int = OUTPUTS, inputs: int | None = None, bias: bool = True) -> str:
        """Add a layer over the last axis."""
        y = self.node("MatMul", x, self.constant(self.x[-1] if inputs is None else inputs, outputs))
        return self.node("Add", y, self.constant(outputs)) if bias else y

    def gated(self, x: str, activation: str, *, gate_first: bool = True, **more: Any) -> str:
        """Add the product of two layers, one of which is activated."""
        both = [self.activation(activation, self.dense(x, **more)), self.dense(x, **more)]
        return self.node("Mul", *(both if gate_first else reversed(both)))


def kernels_of(model: onnx.ModelProto) -> list[str]:
    """Return the operators but for those that fold the axes before the last one."""
    return [each for each in operators_of(model) if each != "Reshape"]


def one_layer(activation: str = "silu", n: int | str = 2, opset: int = 20, **more: Any) -> onnx.ModelProto:
    """Return a model of one gated layer."""
    model = Texts(n, opset=opset)
    return model.finished(model.gated("x", activation, **more))


@pytest.mark.parametrize("activation", [each for each in ACTIVATION.choices if each != "quick_gelu"])
@pytest.mark.parametrize("gate_first", [True, False])
def test_the_product_is_one_kernel_in_either_order(gate_first: bool, activation: str) -> None:
    fused = fused_like_plain(one_layer(activation, gate_first=gate_first), GATED)
    assert kernels_of(fused) == [GATED]
    (node,) = (node for node in fused.graph.node if node.op_type == GATED)
    (chosen,) = (each.i for each in node.attribute if each.name == "activation")
    assert ACTIVATION.choices[chosen] == activation


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize("n", [1, "n"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_bias_may_be_missing_and_the_batch_open(bias: bool, n: int | str, activation: str) -> None:
    assert kernels_of(fused_like_plain(one_layer(activation, n, 17, bias=bias), GATED)) == [GATED]


def halves(model: Texts, y: str, *sizes: int, split: bool = False) -> list[str]:
    """Add what takes parts of the last axis of these sizes."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    if split:
        model.constants["sizes"] = np.array(sizes, np.int64)
        names = [f"{y}.{index}" for index in range(len(sizes))]
        model.nodes.append(helper.make_node("Split", [y, "sizes"], names, name="split", axis=-1))
        return names
    model.constants |= {f"at{end}": np.array([end], np.int64) for end in (0, -1, *ends)}
    return [
        model.node("Slice", y, f"at{end - size}", f"at{end}", "at-1") for size, end in zip(sizes, ends, strict=True)
    ]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("gate_first", [True, False])
@pytest.mark.parametrize("n", [2, "n"])
def test_both_may_be_halves_of_one_layer(n: int | str, gate_first: bool, split: bool) -> None:
    model = Texts(n)
    first, second = halves(model, model.dense("x", 2 * OUTPUTS), OUTPUTS, OUTPUTS, split=split)
    gate, value = (first, second) if gate_first else (second, first)
    product = model.node("Mul", model.activation("silu", gate), value)
    assert kernels_of(fused_like_plain(model.finished(product), GATED)) == [GATED]


def test_parts_that_are_no_halves_stay() -> None:
    model = Texts()
    y = model.dense("x", 3 * OUTPUTS)
    first, second, third = halves(model, y, OUTPUTS, OUTPUTS, OUTPUTS)
    model = model.finished(model.node("Mul", model.activation("silu", first), second), third)
    with pytest.raises(LenetTrtError, match="no place for it"):
        fuse(model, [GATED])


def test_a_layer_whose_halves_are_no_gate_is_one_dense_layer() -> None:
    model = Texts()
    first, second = halves(model, model.dense("x", 2 * OUTPUTS), OUTPUTS, OUTPUTS)
    model = model.finished(model.node("Add", first, second))
    assert kernels_of(fused_like_plain(model, DENSE)) == [DENSE, "Slice", "Slice", "Add"]


def test_one_bias_may_be_missing() -> None:
    model = Texts()
    product = model.node("Mul", model.node("Relu", model.dense("x", bias=False)), model.dense("x"))
    assert kernels_of(fused_like_plain(model.finished(product), GATED)) == [GATED]


@pytest.mark.parametrize("sizes", [(INPUTS,), (3, 5, INPUTS)], ids=str)
def test_any_number_of_axes_before_the_last(sizes: tuple[int, ...]) -> None:
    model = Texts("n", *sizes)
    assert kernels_of(fused_like_plain(model.finished(model.gated("x", "silu")), GATED)) == [GATED]


def test_several_layers_share_their_function() -> None:
    model = Texts("n")
    y = "x"
    for gate_first, activation in ((True, "silu"), (False, "silu"), (True, "relu")):
        y = model.dense(model.gated(y, activation, gate_first=gate_first), INPUTS, OUTPUTS)
    assert Counter(kernels_of(fused_like_plain(model.finished(y), GATED, DENSE))) == {GATED: 3, DENSE: 3}


def no_place(model: onnx.ModelProto, wanted: str) -> None:
    """Check that the kernel has no place, and why; plain dense layers stay right."""
    with pytest.raises(LenetTrtError, match=f"{GATED}: the network has no place for it.*{wanted}"):
        fuse(model, [GATED])
    assert GATED not in kernels_of(fused_like_plain(model, DENSE))


def test_layers_of_different_inputs_are_two_layers() -> None:
    model = Texts()
    gate = model.node("Relu", model.dense("x"))
    no_place(model.finished(model.node("Mul", gate, model.dense(model.node("Neg", "x")))), "no such")


def test_layers_of_different_sizes_are_two_layers() -> None:
    model = Texts(2, TOKENS, INPUTS)
    gate = model.node("Relu", model.dense("x", 1))  # one gate for all outputs of a word
    no_place(model.finished(model.node("Mul", gate, model.dense("x"))), "")


def test_both_activated_is_another_layer() -> None:
    model = Texts()
    both = [model.node("Relu", model.dense("x")) for _ in range(2)]
    no_place(model.finished(model.node("Mul", *both)), "no such")


def test_a_gate_between_zero_and_one_is_another_layer() -> None:
    """The sigmoid of GLU is none of the activations."""
    model = Texts()
    no_place(model.finished(model.node("Mul", model.node("Sigmoid", model.dense("x")), model.dense("x"))), "no such")


@pytest.mark.parametrize("read", ["gate", "activated", "value"])
def test_what_others_read_too_keeps_the_layers_apart(read: str) -> None:
    model = Texts()
    values = {"gate": model.dense("x"), "value": model.dense("x")}
    values["activated"] = model.node("Relu", values["gate"])
    product = model.node("Mul", values["activated"], values["value"])
    no_place(model.finished(product, model.node("Neg", values[read])), "is also used by")


@pytest.mark.parametrize(
    ("inputs", "outputs", "wanted"),
    [
        (36, OUTPUTS, "in is a multiple of 8, and in = 36"),
        (INPUTS, 36, "out is a multiple of 8, and out = 36"),
        (24, OUTPUTS, "32 <= in, and in = 24"),
        (INPUTS, 24, "32 <= out, and out = 24"),
    ],
)
def test_what_it_has_no_code_for_is_named(inputs: int, outputs: int, wanted: str) -> None:
    model = Texts(2, TOKENS, inputs)
    with pytest.raises(LenetTrtError, match=f"{GATED}.*{wanted}"):
        fuse(model.finished(model.gated("x", "silu", outputs=outputs)), [GATED])


def test_floats_are_refused_and_bf16_is_taken() -> None:
    def layer(dtype: int) -> onnx.ModelProto:
        model = Texts(dtype=dtype)
        return model.finished(model.gated("x", "silu"))

    with pytest.raises(LenetTrtError, match="it is declared for fp16"):
        fuse(layer(TensorProto.FLOAT), [GATED])
    assert kernels_of(fuse(layer(TensorProto.BFLOAT16), [GATED]).model) == [GATED]


def taken(*sizes: int, sm: int = 90) -> Counter[str]:
    """Return the plugins that ``auto`` takes; these models are too large to be run."""
    model = Texts(*sizes)
    layer = model.finished(model.node("Neg", model.gated(model.node("Neg", "x"), "silu", outputs=512)))
    return Counter(plugin_nodes(fuse(layer, architectures=[sm]).model).values())


def test_auto_takes_much_work_on_hopper_where_linear_half_is_taken() -> None:
    assert taken(8, 14, 14, 128) == {GATED: 1}
    assert taken(7, 14, 14, 128) == {}  # too few operations
    assert taken(8, 196, 128) == {}  # three axes
    assert taken(8, 14, 14, 128, sm=89) == {}
