"""Squeeze and excite: gates that are found in exported networks, and graphs beside them that must be left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from fused_models import fused_alike
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from torch_export import exported_module

NAME = "squeeze_excite"
CHANNELS, HIDDEN, SIDE = 16, 5, 8


def gated(
    mean: str = "GlobalAveragePool",
    between: str = "Relu",
    gate: str = "Sigmoid",
    multiply: str = "Mul",
    image_first: bool = True,
    kernel: int = 1,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 17,
    hidden: int = HIDDEN,
    batch: int | str = "n",
    **attributes: Any,
) -> onnx.ModelProto:
    """Make a gate whose parts have these operators; ``attributes`` are those of the gate's function."""
    random = np.random.default_rng(0)
    weights = {
        "w1": random.normal(size=(hidden, CHANNELS, kernel, kernel)) / 4,
        "b1": random.normal(size=hidden),
        "w2": random.normal(size=(CHANNELS, hidden, 1, 1)),
        "b2": random.normal(size=CHANNELS),
    }
    named = {"axes": [2, 3]} if mean == "ReduceMean" else {}
    activation = [helper.make_node(between, ["first"], ["hidden"])]
    if between == "Silu":
        activation = [
            helper.make_node("Sigmoid", ["first"], ["of_first"]),
            helper.make_node("Mul", ["first", "of_first"], ["hidden"]),
        ]
    pads = [kernel // 2] * 4
    nodes = [
        helper.make_node(mean, ["x"], ["mean"], **named),
        helper.make_node("Conv", ["mean", "w1", "b1"], ["first"], kernel_shape=[kernel, kernel], pads=pads),
        *activation,
        helper.make_node("Conv", ["hidden", "w2", "b2"], ["second"], kernel_shape=[1, 1]),
        helper.make_node(gate, ["second"], ["gate"], **attributes),
        helper.make_node(multiply, ["x", "gate"] if image_first else ["gate", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "gate",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, CHANNELS, SIDE, SIDE])],
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [f"{name}{i}" for i in range(4)])
            for name in outputs
        ],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def alike(model: onnx.ModelProto) -> list[str]:
    """Return the operators of the fused model, which computes the same."""
    x = np.random.default_rng(1).normal(size=(3, CHANNELS, SIDE, SIDE)).astype(np.float32)
    return fused_alike(model, NAME, x)


@pytest.mark.parametrize("image_first", [True, False])
@pytest.mark.parametrize("mean", ["GlobalAveragePool", "ReduceMean"])
@pytest.mark.parametrize(
    ("between", "gate", "attributes"),
    [
        ("Relu", "Sigmoid", {}),
        ("Silu", "Sigmoid", {}),
        ("Relu", "HardSigmoid", {"alpha": 1 / 6}),
        ("Silu", "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    ],
)
def test_gates_are_found(mean: str, between: str, gate: str, attributes: dict[str, float], image_first: bool) -> None:
    assert alike(gated(mean, between, gate, image_first=image_first, **attributes)) == [NAME]


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": "HardSigmoid"},  # ONNX's default slope, 0.2, is another function
        {"gate": "Tanh"},
        {"multiply": "Add"},
        {"kernel": 3},
        {"mean": "GlobalMaxPool"},
        {"between": "Sigmoid"},
        {"outputs": ("y", "gate")},
        {"outputs": ("y", "mean")},
    ],
    ids=str,
)
def test_other_graphs_are_left(changed: dict[str, Any]) -> None:
    operators = [node.op_type for node in fuse(gated(**changed), "all").model.graph.node]
    assert NAME not in operators


@settings(max_examples=10, deadline=None)
@given(hidden=st.integers(1, 40), image_first=st.booleans())
def test_any_number_of_channels_between_is_taken(hidden: int, image_first: bool) -> None:
    assert alike(gated(hidden=hidden, image_first=image_first)) == [NAME]


@pytest.mark.parametrize(
    ("batch", "hidden", "sm", "taken"),
    [
        ("n", 8, 90, True),
        (1, 8, 90, True),
        (256, 8, 90, True),
        (64, 80, 90, True),
        (65, 80, 90, False),
        (1, 300, 90, False),
        (1, 8, 89, False),
    ],
)
def test_auto_takes_what_was_measured_on_hopper(batch: int | str, hidden: int, sm: int, taken: bool) -> None:
    model = gated(batch=batch, hidden=hidden)
    assert len(find_places(model, [registry.kernel(NAME)], [sm])[0]) == taken


@pytest.mark.parametrize("opset", [11, 17, 18, 23])
@pytest.mark.parametrize("hard", [False, True])
def test_gates_of_torchs_exporters_are_found(opset: int, hard: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch exports the gate")

    class Gate(torch.nn.Module):  # type: ignore[name-defined, misc]
        """As torchvision and timm write it."""

        def __init__(self) -> None:
            super().__init__()
            self.pool = torch.nn.AdaptiveAvgPool2d(1)
            self.first = torch.nn.Conv2d(CHANNELS, HIDDEN, 1)
            self.second = torch.nn.Conv2d(HIDDEN, CHANNELS, 1)

        def forward(self, x: Any) -> Any:
            if hard:
                hidden = torch.nn.functional.relu(self.first(self.pool(x)))
                return torch.nn.functional.hardsigmoid(self.second(hidden)) * x
            hidden = torch.nn.functional.silu(self.first(x.mean((2, 3), keepdim=True)))
            return x * torch.sigmoid(self.second(hidden))

    torch.manual_seed(0)
    model = exported_module(Gate().eval(), torch.zeros(2, CHANNELS, SIDE, SIDE), opset)
    assert alike(model) == [NAME]
