"""A norm behind another shape of a sum is computed of the sum itself, as in timm's Swin."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

IMAGE = [2, 3, 4, 8]


def model_of(
    view: list[int], axis: int = -1, sum_read: bool = True, constants: bool = False, operator: str = "Add"
) -> onnx.ModelProto:
    """Return y = norm(view(a + b)), and z, which has the view of the sum, too."""
    random = np.random.default_rng(0)
    size = view[axis:]
    tensors = {
        "scale": random.normal(size=size).astype(np.float32),
        "bias": random.normal(size=size).astype(np.float32),
        "view": np.array(view, np.int64),
    }
    nodes = [
        helper.make_node(operator, ["a", "b"], ["sum"]),
        helper.make_node("Reshape", ["sum", "view"], ["rows"]),
        helper.make_node("LayerNormalization", ["rows", "scale", "bias"], ["y"], axis=axis, epsilon=1e-5),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, view)]
    if sum_read:
        nodes.insert(2, helper.make_node("Relu", ["rows"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, view))
    initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    if constants:  # behind the sum, as TorchScript's exporter writes shapes
        nodes[1:1] = [helper.make_node("Constant", [], [each.name], value=each) for each in initializers[2:]]
        del initializers[2:]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, IMAGE) for name in "ab"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("sum_read", [False, True])
@pytest.mark.parametrize("view", [[2, 12, 8], [24, 8], [1, 24, 1, 8]])
def test_the_sum_and_the_norm_are_one_kernel(view: list[int], sum_read: bool, constants: bool) -> None:
    model = model_of(view, sum_read=sum_read, constants=constants)
    fused = fuse(model, ["add_layer_norm"]).model
    onnx.checker.check_model(fused, full_check=True)
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == ["add_layer_norm"]
    given = {name: np.random.default_rng(n).normal(size=IMAGE).astype(np.float32) for n, name in enumerate("ab")}
    for seen, wanted in zip(run(fused, **given), run(model, **given), strict=True):
        assert seen.shape == wanted.shape
        np.testing.assert_allclose(seen, wanted, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [model_of([2, 6, 16]), model_of([2, 12, 8], axis=1), model_of([2, 12, 8], operator="Mul")],
    ids=["other rows", "two axes", "a product"],
)
def test_another_norm_is_no_place(model: onnx.ModelProto) -> None:
    with pytest.raises(LenetTrtError, match="add_layer_norm: the network has no place for it"):
        fuse(model, ["add_layer_norm"])
