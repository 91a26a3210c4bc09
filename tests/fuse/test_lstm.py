"""LSTM layers: what torch's exporters write is found, what only looks like it is left."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


def fused_and_compared(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[str]:
    """Name the kernels that ``--plugins lstm`` puts in; the model computes the same."""
    fused = fuse(model, "all").model
    onnx.checker.check_model(fused, full_check=True)
    for seen, wanted in zip(run(fused, **inputs), run(model, **inputs), strict=True):
        np.testing.assert_allclose(seen, wanted, atol=1e-6)
    return [node.op_type for node in fused.graph.node if node.domain == DOMAIN]


@pytest.mark.filterwarnings("ignore:Exporting a model to ONNX")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_a_layer_as_torch_exports_it(bidirectional: bool, batch_first: bool, last: bool) -> None:
    torch = pytest.importorskip("torch")

    class Tagger(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(INPUTS, HIDDEN, batch_first=batch_first, bidirectional=bidirectional)

        def forward(self, x: Any) -> Any:
            y, (h, _) = self.lstm(x)
            return h if last else y

    torch.manual_seed(0)
    module = Tagger().eval()
    x = torch.randn((BATCH, STEPS, INPUTS) if batch_first else (STEPS, BATCH, INPUTS))
    file = io.BytesIO()
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0 if batch_first else 1: "n"}}}
    torch.onnx.export(module, (x,), file, opset_version=17, dynamo=False, **names)
    assert fused_and_compared(onnx.load_from_string(file.getvalue()), {"x": x.numpy()}) == ["lstm"]


def layer(
    direction: str = "forward", lengths: bool = False, bias: bool = True, hidden: int = HIDDEN, **attributes: Any
) -> onnx.ModelProto:
    random, dirs = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    weights = {
        "w": random.uniform(-1, 1, (dirs, 4 * hidden, INPUTS)),
        "r": random.uniform(-1, 1, (dirs, 4 * hidden, hidden)),
        "b": random.uniform(-1, 1, (dirs, 8 * hidden)),
    }
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    constants.append(numpy_helper.from_array(np.array([STEPS, 2, 1], np.int32), "lengths"))
    given = ["x", "w", "r", "b" if bias else "", "lengths" if lengths else "", "h0", "c0"]
    node = helper.make_node("LSTM", given, ["y", "y_h", "y_c"], hidden_size=hidden, direction=direction, **attributes)
    states = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [dirs, BATCH, hidden])
        for name in ("h0", "c0", "y_h", "y_c")
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, INPUTS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, dirs, BATCH, hidden])
    graph = helper.make_graph([node], "layer", [x, *states[:2]], [y, *states[2:]], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("outputs", [["y"], ["y", "y_h"], ["", "y_h"], ["", "", "y_c"]])
def test_outputs_that_are_left_out(outputs: list[str]) -> None:
    """torch's dynamo exporter lists no output that nothing reads, and takes the weights apart and together again."""
    model = layer("bidirectional")
    (node,) = model.graph.node
    node.output[:] = outputs
    for value in [value for value in model.graph.output if value.name not in outputs]:
        model.graph.output.remove(value)
    names = {"zero": [0], "half": [2 * HIDDEN], "all": [4 * HIDDEN], "axis": [1]}
    model.graph.initializer.extend(numpy_helper.from_array(np.int64(array), name) for name, array in names.items())
    parts = [
        helper.make_node("Slice", ["w", "zero", "half", "axis"], ["first"]),
        helper.make_node("Slice", ["w", "half", "all", "axis"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["again"], axis=1),
    ]
    node.input[1] = "again"
    nodes = [*parts, node]
    kept = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    assert fused_and_compared(model, inputs_of(model)) == ["lstm"]


def inputs_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_all_three_results_and_the_first_states_are_the_kernels(direction: str) -> None:
    model = layer(direction)
    assert fused_and_compared(model, inputs_of(model)) == ["lstm"]


@pytest.mark.parametrize(
    "changes",
    [
        {"lengths": True},
        {"bias": False},
        {"clip": 1.0},
        {"input_forget": 1},
        {"activations": ["Sigmoid", "Relu", "Tanh"]},
    ],
    ids=str,
)
def test_what_only_looks_like_the_layer_is_left(changes: dict[str, Any]) -> None:
    assert [node for node in fuse(layer(**changes), "all").model.graph.node if node.domain == DOMAIN] == []


@pytest.mark.parametrize(("hidden", "taken"), [(HIDDEN, ["lstm"]), (256, ["lstm"]), (257, [])])
def test_auto_takes_states_that_registers_hold(hidden: int, taken: list[str]) -> None:
    fused = fuse(layer(hidden=hidden)).model
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == taken
