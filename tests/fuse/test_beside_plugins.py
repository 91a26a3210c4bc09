"""Layer norms and small dense layers are plugins beside other plugins, and TensorRT's elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

ROWS, WIDTH = 256, 192
WIDE = 4 * WIDTH  # a layer to so many features is claimed at these rows; one to WIDTH is not


class Model:
    """Add layers one after the other."""

    def __init__(self, rows: int = ROWS) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.rows = rows

    def node(self, op_type: str, *inputs: str, **attributes: int) -> str:
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, *shape: int) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = np.random.default_rng(len(self.constants)).normal(0, 0.1, shape).astype(np.float32)
        return name

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.node("MatMul", x, self.constant(inputs, outputs))
        return self.node("Add", product, self.constant(outputs))

    def norm(self, x: str) -> str:
        return self.node("LayerNormalization", x, self.constant(WIDTH), self.constant(WIDTH), axis=-1)

    def finished(self, *outputs: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, self.rows // 2, WIDTH])
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "beside", [x], results, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
        return model


def taken(model: onnx.ModelProto, architectures: Sequence[int] = (90,)) -> Counter[str]:
    """Fuse a model, compare it with the plain one, and count the plugins."""
    fused = fuse(model, "auto", architectures).model
    x = np.random.default_rng(0).normal(size=(2, model.graph.input[0].type.tensor_type.shape.dim[1].dim_value, WIDTH))
    for seen, wanted in zip(*(run(each, x=x.astype(np.float32)) for each in (fused, model)), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-4)
    return Counter(plugin_nodes(fused).values())


def perceptron(model: Model, x: str) -> str:
    return model.dense(model.node("Relu", model.dense(x, WIDTH, WIDE)), WIDE, WIDTH)


def test_a_norm_between_plugins() -> None:
    model = Model()
    first = perceptron(model, "x")
    total = model.node("Add", "x", first)
    second = perceptron(model, model.norm(total))
    assert taken(model.finished(model.node("Add", total, second))) == {"linear": 4, "add_layer_norm": 1}


def test_a_norm_with_a_plugin_on_one_side() -> None:
    model = Model()
    y = perceptron(model, model.norm(model.node("Abs", "x")))
    assert taken(model.finished(y)) == {"linear": 2}
    model = Model()
    y = model.node("Abs", model.norm(perceptron(model, "x")))
    assert taken(model.finished(y)) == {"linear": 2}


def test_a_norm_that_others_read_too() -> None:
    model = Model()
    normal = model.norm(perceptron(model, "x"))
    y = perceptron(model, normal)
    assert taken(model.finished(y, model.node("Abs", normal))) == {"linear": 4}
    assert taken(model.finished(y, normal)) == {"linear": 4}


def test_norms_of_sums_one_after_the_other() -> None:
    """Each is added to what follows it, as in BERT: the last one, which TensorRT keeps, does not cost the others."""
    model = Model()
    normal = model.norm(model.node("Add", "x", perceptron(model, "x")))
    for _ in range(2):
        normal = model.norm(model.node("Add", normal, perceptron(model, normal)))
    assert taken(model.finished(normal)) == {"linear": 6, "add_layer_norm": 2}


def test_small_layers_beside_plugins() -> None:
    """A row of layers, of which one is claimed: the others are taken from neighbour to neighbour."""
    model = Model()
    y = model.dense(perceptron(model, "x"), WIDTH, WIDTH)
    normal = model.norm(model.node("Add", y, "x"))
    y = model.dense(normal, WIDTH, WIDTH)
    assert taken(model.finished(y)) == {"linear": 4, "add_layer_norm": 1}


def test_small_layers_alone_stay() -> None:
    model = Model()
    y = model.dense(model.node("Relu", model.dense("x", WIDTH, WIDTH)), WIDTH, WIDTH)
    assert not taken(model.finished(model.dense(model.norm(y), WIDTH, WIDTH)))


@pytest.mark.parametrize(("rows", "architectures"), [(32, (90,)), (ROWS, (86,)), (ROWS, ())])
def test_sizes_and_gpus_for_which_nothing_is_taken(rows: int, architectures: Sequence[int]) -> None:
    model = Model(rows)
    y = model.dense(perceptron(model, "x"), WIDTH, WIDTH)
    assert not taken(model.finished(y), architectures)


def test_what_is_left_is_told() -> None:
    model = Model()
    y = perceptron(model, model.norm(model.node("Abs", "x")))
    refused = [refusal for refusal in fuse(model.finished(y), "auto", (90,)).refusals if refusal.kernel == "layer_norm"]
    assert [refusal.brief for refusal in refused] == ["auto takes layer_norm only beside plugins"]
