"""An ``If`` that constants decide becomes its branch; in 16 bits models of plugins run in ONNX Runtime so."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.branches import without_decided_ifs
from lenet_trt.runtimes.ort import runner

SHAPE = (2, 3, 5, 64)
AFTER = {
    "none": (),
    "relu": (("Relu", ("{}",)),),
    "silu": (("Sigmoid", ("{}",)), ("Mul", ("{}", "{0}"))),
}


def dense_layers(activations: tuple[str, ...]) -> onnx.ModelProto:
    """Make dense layers in fp16, one after the other, with an activation each."""
    rng = np.random.default_rng(3)
    nodes, weights, last = [], [], "x"
    for i, activation in enumerate(activations):
        w = (rng.standard_normal((64, 64)) / 8).astype(np.float16)
        bias = rng.standard_normal(64).astype(np.float16)
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"])]
        nodes += [helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}_0"])]
        for step, (operator, inputs) in enumerate(AFTER[activation], 1):
            names = [f"a{i}_0" if each == "{0}" else f"a{i}_{step - 1}" for each in inputs]
            nodes += [helper.make_node(operator, names, [f"a{i}_{step}"])]
        last = f"a{i}_{len(AFTER[activation])}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, SHAPE) for name in ("x", last)]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("activations", [("relu", "none"), ("none", "silu", "relu", "silu")], ids=" ".join)
def test_fused_layers_of_several_activations_run_in_16_bits(activations: tuple[str, ...]) -> None:
    plain = dense_layers(activations)
    fused = fuse(plain, "linear_half", (90,)).model
    assert any(node.op_type == "If" for function in fused.functions for node in function.node)
    inlined = onnx.inliner.inline_local_functions(fused)
    assert not any(node.op_type == "If" for node in without_decided_ifs(inlined).graph.node)
    x = {"x": np.random.default_rng(5).standard_normal(SHAPE).astype(np.float16)}
    (wanted,), (seen,) = runner(plain)(x), runner(fused)(x)
    assert relative_error(seen, wanted.astype(np.float64)) < 1e-3  # a fused bias is added before the sum is rounded


def test_an_if_on_an_input_stays() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Identity" if name == "then" else "Neg", ["x"], [f"{name}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, (3,))],
        )
        for name in ("then", "else")
    }
    graph = helper.make_graph(
        [helper.make_node("If", ["is_so"], ["y"], **branches)],
        "choice",
        [
            helper.make_tensor_value_info("is_so", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert without_decided_ifs(model) == model
