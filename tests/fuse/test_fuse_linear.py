"""Dense layers over the last axis, with any number of axes before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
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


def test_weights_that_are_computed_in_the_network_are_left_alone() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["w"], perm=[0, 2, 1]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    fused = fuse(model_of(nodes, [2, INPUTS, INPUTS], {}), "all")
    assert "linear" not in {each.kernel for each in fused.replacements}
