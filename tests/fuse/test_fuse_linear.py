"""Dense layers over the last axis, with any number of axes before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

INPUTS, OUTPUTS = 32, 40


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: list[onnx.NodeProto], shape: list[int | str], constants: dict[str, np.ndarray], axes: int | None = None
) -> onnx.ModelProto:
    """Make a model from x of this shape to y, whose sizes it does not say."""
    outputs = [f"y{axis}" for axis in range(axes or len(shape))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", shape), ("y", outputs))]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fused_alike(model: onnx.ModelProto, *shape: int) -> list[str]:
    """Fuse a model, compare it with the plain one, and return the kernels that it has."""
    fused = fuse(model, ["linear"]).model
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-5)
    return [node.op_type for node in fused.graph.node if node.domain == DOMAIN]


@pytest.mark.parametrize("shape", [["n", INPUTS], ["n", 5, INPUTS], ["n", 2, 3, INPUTS], ["n", "tokens", INPUTS]])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("bias", [(OUTPUTS,), (1, OUTPUTS), None])
def test_any_number_of_axes_before_the_last(
    shape: list[int | str], swapped: bool, bias: tuple[int, ...] | None
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p" if bias else "y"])]
    constants = {"w": weights(INPUTS, OUTPUTS)}
    if bias is not None:
        nodes.append(helper.make_node("Add", ["b", "p"] if swapped else ["p", "b"], ["y"]))
        constants["b"] = weights(*bias)
    sizes = [size if isinstance(size, int) else 4 for size in shape]
    assert fused_alike(model_of(nodes, shape, constants), *sizes) == ["linear"]


@pytest.mark.parametrize(
    ("bias", "axes"),
    [((5, 1), 3), ((5, OUTPUTS), 3), ((1, 1, 1, OUTPUTS), 4)],
)
def test_what_is_added_to_some_rows_alone_is_no_bias(bias: tuple[int, ...], axes: int) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    model = model_of(nodes, ["n", 5, INPUTS], {"w": weights(INPUTS, OUTPUTS), "b": weights(*bias)}, axes)
    fused = fuse(model, ["linear"]).model
    x = np.random.default_rng(1).standard_normal((4, 5, INPUTS)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=2e-5)
    assert [node.op_type for node in fused.graph.node if node.op_type == "Add"] == ["Add"]


@pytest.mark.parametrize(
    ("given", "unfolded", "activation_too"),
    [
        (["n", 6, INPUTS], [-1, 6, OUTPUTS], True),
        ([4, 6, INPUTS], [4, 6, OUTPUTS], True),
        ([4, 6, INPUTS], [8, 3, OUTPUTS], False),  # other rows
        ([4, 6, INPUTS], [4, 3, 2 * OUTPUTS], False),
        ([4, 6, INPUTS], [4, 6, 2, OUTPUTS // 2], False),  # heads
    ],
)
def test_rows_that_are_folded_for_the_layer_alone(
    given: list[int | str], unfolded: list[int], activation_too: bool
) -> None:
    nodes = [
        *(helper.make_node("Reshape", ["x", "two"], ["rows"]), helper.make_node("Gemm", ["rows", "w", "b"], ["p"])),
        *(helper.make_node("Reshape", ["p", "back"], ["z"]), helper.make_node("Relu", ["z"], ["y"])),
    ]
    shapes = {"two": np.array([-1, INPUTS]), "back": np.array(unfolded)}
    constants = {"w": weights(INPUTS, OUTPUTS), "b": weights(OUTPUTS), **shapes}
    model = model_of(nodes, given, constants, len(unfolded))
    assert fused_alike(model, 4, 6, INPUTS) == ["linear"]
    left = {node.op_type for node in fuse(model, ["linear"]).model.graph.node}
    assert ("Relu" not in left) == activation_too


def test_several_matrices_are_another_layer() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    assert not fuse(model_of(nodes, ["n", 3, 5, INPUTS], {"w": weights(3, INPUTS, OUTPUTS)}), "all").replacements


@pytest.mark.parametrize(
    ("inputs", "outputs", "wanted"), [(36, 40, "in is a multiple of 8"), (32, 41, "multiple of 8")]
)
def test_sizes_that_no_variant_has_are_refused(inputs: int, outputs: int, wanted: str) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    with pytest.raises(LenetTrtError, match=wanted):
        fuse(model_of(nodes, ["n", 3, inputs], {"w": weights(inputs, outputs)}), ["linear"])


@pytest.mark.parametrize("opset", [11, 17, 20])
def test_the_layers_of_a_transformer_in_torch(opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    nn: Any = torch.nn
    network = nn.Sequential(nn.Linear(INPUTS, 64), nn.GELU(), nn.Linear(64, INPUTS, bias=False), nn.SiLU())
    model = exported_module(network.eval(), torch.zeros(2, 7, INPUTS), opset)
    assert fused_alike(model, 3, 7, INPUTS) == ["linear", "linear"]


# As torch and Hugging Face's transformers write them.
APPROXIMATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "GELU": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "NewGELUActivation": lambda torch, x: 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x**3.0))),
    "QuickGELUActivation": lambda torch, x: x * torch.sigmoid(1.702 * x),
}


@pytest.mark.parametrize("opset", [11, 17, 18, 20])
@pytest.mark.parametrize("written", APPROXIMATIONS)
def test_the_approximations_of_gelu_in_torch(written: str, opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    nn: Any = torch.nn

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(INPUTS, 64), nn.Linear(64, INPUTS)

        def forward(self, x: Any) -> Any:
            return self.second(APPROXIMATIONS[written](torch, self.first(x)))

    model = exported_module(Layers().eval(), torch.zeros(2, 7, INPUTS), opset)
    assert fused_alike(model, 3, 7, INPUTS) == ["linear", "linear"]
    choices = kernel("linear").attributes[0].examples
    for precision, name in (("fp32", "linear"), ("fp16", "linear_half"), ("bf16", "linear_half")):
        nodes = fuse(convert(model, precision), [name]).model.graph.node
        first = next(node for node in nodes if node.domain == DOMAIN)
        wanted = "quick_gelu" if written == "QuickGELUActivation" else "gelu_tanh"
        assert choices[helper.get_node_attr_value(first, "activation")] == wanted
        assert not {"Gelu", "Tanh", "Sigmoid", "Mul"} & {node.op_type for node in nodes}


@pytest.mark.parametrize(
    ("root", "cubic", "half", "quick", "replaced"),
    [
        (0.7978845608, 0.044715, 0.5, 1.702, True),
        (0.797, 0.044715, 0.5, 1.702, False),
        (0.7978845608, 0.0447, 0.5, 1.702, False),
        (0.7978845608, 0.044715, 0.25, 1.702, False),
        (0.7978845608, 0.044715, 0.5, 1.7, False),
    ],
)
def test_only_these_constants_approximate_gelu(
    root: float, cubic: float, half: float, quick: float, replaced: bool
) -> None:
    constants = {"one": 1.0, "three": 3.0, "root": root, "cubic": cubic, "half": half, "quick": quick}
    nodes = [
        *(helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Pow", ["p", "three"], ["cube"])),
        *(helper.make_node("Mul", ["cube", "cubic"], ["k"]), helper.make_node("Add", ["p", "k"], ["s"])),
        *(helper.make_node("Mul", ["s", "root"], ["u"]), helper.make_node("Tanh", ["u"], ["t"])),
        *(helper.make_node("Add", ["t", "one"], ["a"]), helper.make_node("Mul", ["p", "half"], ["h"])),
        *(helper.make_node("Mul", ["h", "a"], ["g"]), helper.make_node("MatMul", ["g", "v"], ["q"])),
        *(helper.make_node("Mul", ["q", "quick"], ["z"]), helper.make_node("Sigmoid", ["z"], ["e"])),
        helper.make_node("Mul", ["q", "e"], ["y"]),
    ]
    scalars = {name: np.array(value, np.float32) for name, value in constants.items()}
    model = model_of(nodes, ["n", 5, INPUTS], {"w": weights(INPUTS, 64), "v": weights(64, INPUTS), **scalars})
    assert fused_alike(model, 4, 5, INPUTS) == ["linear", "linear"]
    left = {node.op_type for node in fuse(model, ["linear"]).model.graph.node if node.domain != DOMAIN}
    assert (left == {"Reshape"}) == replaced


def test_weights_that_are_computed_in_the_network_are_left_alone() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["w"], perm=[0, 2, 1]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    fused = fuse(model_of(nodes, [2, INPUTS, INPUTS], {}), "all")
    assert "linear" not in {each.kernel for each in fused.replacements}


def test_layers_that_share_their_weights_share_packed_ones() -> None:
    """As those of an ALBERT do: the file stays as small."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    model = model_of(nodes, ["n", INPUTS], {"w": weights(INPUTS, INPUTS)})
    assert fused_alike(model, 4, INPUTS) == ["linear", "linear"]
    packed = [node.input[1:] for node in fuse(model, ["linear"]).model.graph.node if node.domain == DOMAIN]
    assert packed[0] == packed[1]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("shape", "axes"), [((OUTPUTS,), 3), ((1, 1, OUTPUTS), 3), ((OUTPUTS,), 2)])
def test_a_factor_of_each_output_is_in_the_weights(shape: tuple[int, ...], axes: int, precision: str) -> None:
    """As the layer scale of vision transformers is."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Mul", ["factor", "s"], ["y"]),
    ]
    constants = {"w": weights(INPUTS, OUTPUTS), "b": weights(OUTPUTS), "factor": weights(*shape)}
    model = convert(model_of(nodes, [2, 5, INPUTS][3 - axes :], constants), precision)
    fused = fuse(model, ["linear" if precision == "fp32" else "linear_half"]).model
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN or node.op_type == "Mul"] == [
        "linear" if precision == "fp32" else "linear_half"
    ]
    x = np.random.default_rng(1).standard_normal([2, 5, INPUTS][3 - axes :]).astype(np.float32)
    found, wanted = (run(each, x)[0].astype(np.float64) for each in (fused, model))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 if precision == "fp32" else 0.03)


@pytest.mark.parametrize("shape", [(), (5, 1), (5, OUTPUTS), (2, 1, OUTPUTS)])
def test_other_factors_stay(shape: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Mul", ["s", "factor"], ["y"]),
    ]
    constants = {"w": weights(INPUTS, OUTPUTS), "b": weights(OUTPUTS), "factor": weights(*shape)}
    model = model_of(nodes, [2, 5, INPUTS], constants)
    assert fused_alike(model, 2, 5, INPUTS) == ["linear"]
    assert [node.op_type for node in fuse(model, ["linear"]).model.graph.node if node.op_type == "Mul"] == ["Mul"]
