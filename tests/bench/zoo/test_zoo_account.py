"""The account of an engine from trtexec's exports: made up, in their form, with names of fused layers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.bench.zoo.account import accounted
from lenet_trt.bench.zoo.kinds import layer_kind, node_kinds
from lenet_trt.floors.work import network_of
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt.layers import EngineLayer
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline
from traced import CEILINGS
from trtexec_files import profile

N, C, SIDE = 32, 64, 56
IMAGE = [N, C, SIDE, SIDE]
IMAGE_BYTES = 4 * N * C * SIDE * SIDE


def small_model() -> onnx.ModelProto:
    """Depthwise convolution, ReLU, 1x1 convolution, global pooling, and a softmax of products."""
    import numpy as np

    def value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    weights = {"deep": (C, 1, 7, 7), "point": (C, C, 1, 1), "dense": (C, C)}
    nodes = [
        helper.make_node("Conv", ["x", "deep"], ["a"], "/deep/Conv", group=C, kernel_shape=[7, 7], pads=[3] * 4),
        helper.make_node("Relu", ["a"], ["b"], "/act/Relu"),
        helper.make_node("Conv", ["b", "point"], ["c"], "/point/Conv", kernel_shape=[1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], "/pool/GlobalAveragePool"),
        helper.make_node("Flatten", ["d"], ["e"], "/Flatten"),
        helper.make_node("MatMul", ["e", "dense"], ["f"], "/dense/MatMul"),
        helper.make_node("Softmax", ["f"], ["y"], "/Softmax"),
    ]
    constants = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "small", [value("x", IMAGE)], [value("y", [N, C])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def tensor(name: str, shape: list[int], kind: str = "Row major linear FP32") -> dict[str, Any]:
    return {"Name": name, "Location": "Device", "Dimensions": shape, "Format/Datatype": kind}


# name, kind, inputs, outputs, ONNX nodes, milliseconds
LAYERS: list[tuple[str, str, list[Any], list[Any], list[str], float]] = [
    (
        "Reformatting CopyNode for Input Tensor 0 to /deep/Conv + /act/Relu",
        "Reformat",
        [tensor("x", IMAGE)],
        [tensor("x2", IMAGE, "Channel major FP32 format where channel % 4 == 0")],
        [],
        0.050,
    ),
    ("/deep/Conv + /act/Relu", "CaskConvolution", [tensor("x2", IMAGE)], [tensor("b", IMAGE)], ["/deep/Conv"], 0.500),
    ("/point/Conv", "CaskConvolution", [tensor("b", IMAGE)], [tensor("c", IMAGE)], [], 0.060),
    ("/pool/GlobalAveragePool", "CudnnPooling", [tensor("c", IMAGE)], [tensor("d", [N, C, 1, 1])], [], 0.040),
    ("{ForeignNode[/Flatten.../Softmax]}", "Myelin", [tensor("d", [N, C, 1, 1])], [tensor("y", [N, C])], [], 0.010),
]


@pytest.fixture
def trace(tmp_path: Path) -> Timeline:
    """The layers, as the profiler and the inspector tell them."""
    rows = [
        {"Name": name, "LayerType": kind, "Inputs": inputs, "Outputs": outputs, "TacticName": "", "Metadata": ""}
        for name, kind, inputs, outputs, _, _ in LAYERS
    ]
    rows[1]["Metadata"] = "[ONNX Layer: /deep/Conv]\u001e[ONNX Layer: /act/Relu]"
    (tmp_path / "layers.json").write_text(json.dumps({"Layers": rows, "Bindings": ["x", "y"]}))
    (tmp_path / "profile.json").write_text(profile([(layer[0], layer[5]) for layer in LAYERS]))
    return timeline_from(tmp_path / "profile.json", tmp_path / "layers.json")


def account_of(trace: Timeline) -> dict[str, Any]:
    model = small_model()
    return accounted(trace, network_of(model, {}).nodes, node_kinds(model), CEILINGS)


@pytest.fixture
def account(trace: Timeline) -> dict[str, Any]:
    return account_of(trace)


def test_the_time_of_the_profiler_is_left_out_of_the_layers(trace: Timeline) -> None:
    whole = account_of(replace(trace, unprofiled_us=620.0))
    assert whole["layers_us"] == pytest.approx(620)
    assert whole["profiler_us"] == pytest.approx(8)
    assert whole["reformats"] == {"layers": 1, "us": 42.0}
    assert account_of(replace(trace, unprofiled_us=700.0))["layers_us"] == pytest.approx(660), "layers may overlap"


def test_layers_are_of_the_kind_of_the_nodes_in_them(account: dict[str, Any]) -> None:
    assert {layer["layer"]: layer["kind"] for layer in account["top"]} == {
        LAYERS[0][0]: "reformat",
        LAYERS[1][0]: "depthwise convolution",
        LAYERS[2][0]: "convolution 1x1",
        LAYERS[3][0]: "pooling",
        LAYERS[4][0]: "Myelin region with attention",
    }
    assert account["layers"] == 5
    assert account["regions"] == {"layers": 1, "us": 10.0}


def test_what_a_layer_could_recover_is_its_time_less_its_floor(account: dict[str, Any]) -> None:
    first = account["top"][0]
    assert first["layer"] == "/deep/Conv + /act/Relu"
    # Read and written once at 1 byte a picosecond; the filter is small, the products take longer than that nowhere.
    floor = (2 * IMAGE_BYTES + 4 * C * 49) / 1e6
    assert first["floor_us"] == pytest.approx(floor, abs=2e-3)
    assert first["recoverable_us"] == pytest.approx(500 - floor, abs=2e-3)
    assert first["op"] == "Conv + Relu"
    assert first["cause"] == "kernel, bound by memory"


def test_all_time_of_a_reformat_could_be_recovered(account: dict[str, Any]) -> None:
    assert account["reformats"] == {"layers": 1, "us": 50.0}
    assert account["kinds"]["reformat"] == {"layers": 1, "us": 50.0, "floor_us": 0.0, "recoverable_us": 50.0}
    assert account["causes"]["reformat"] == account["kinds"]["reformat"]


def test_sums_over_kinds_and_causes_are_the_whole(account: dict[str, Any]) -> None:
    assert account["layers_us"] == pytest.approx(660)
    for key in ("kinds", "causes"):
        assert sum(part["us"] for part in account[key].values()) == pytest.approx(660)
        assert sum(part["floor_us"] for part in account[key].values()) == pytest.approx(account["floor_us"], abs=0.01)
        recoverable = [part["recoverable_us"] for part in account[key].values()]
        assert recoverable == sorted(recoverable, reverse=True)
        assert sum(recoverable) == pytest.approx(660 - account["floor_us"], abs=0.01)
    assert account["causes"]["shorter than a launch"]["layers"] == 1


def test_a_layer_whose_sizes_are_not_told_is_not_judged(tmp_path: Path) -> None:
    rows = [{"Name": "/point/Conv", "LayerType": "CaskConvolution", "Inputs": [tensor("b", [-1, C, SIDE, SIDE])]}]
    rows.append({"Name": "/Softmax", "LayerType": "SoftMax", "Inputs": [tensor("f", [N, C])], "Outputs": []})
    (tmp_path / "layers.json").write_text(json.dumps({"Layers": rows, "Bindings": []}))
    (tmp_path / "profile.json").write_text(profile([("/point/Conv", 0.1), ("/Softmax", 0.01)]))
    model = small_model()
    timeline = timeline_from(tmp_path / "profile.json", tmp_path / "layers.json")
    found = accounted(timeline, network_of(model, {}).nodes, node_kinds(model), CEILINGS)
    (layer,) = [layer for layer in found["top"] if layer["layer"] == "/point/Conv"]
    assert (layer["floor_us"], layer["recoverable_us"], layer["cause"]) == (None, 0.0, "not judged")


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "wanted"),
    [
        ("Conv", (8, 8, 3, 3), {}, "convolution"),
        ("Conv", (8, 8, 1, 1), {}, "convolution 1x1"),
        ("Conv", (8, 4, 3, 3), {"group": 2}, "grouped convolution"),
        ("Conv", (8, 1, 3, 3), {"group": 8}, "depthwise convolution"),
        ("Conv", (8, 8, 9), {}, "convolution 1-D"),
        ("Gemm", (8, 8), {}, "matrix product"),
        ("ScatterElements", (8,), {}, "scatter"),
        ("Erf", (8,), {}, "elementwise"),
        ("Reshape", (2,), {}, "data movement"),
    ],
)
def test_kinds_of_nodes(op: str, shape: tuple[int, ...], attributes: dict[str, int], wanted: str) -> None:
    import numpy as np

    node = helper.make_node(op, ["x", "w"], ["y"], "it", **attributes)
    weight = numpy_helper.from_array(np.zeros(shape, np.float32), "w")
    model = helper.make_model(helper.make_graph([node], "one", [], [], [weight]))
    assert node_kinds(model) == {"it": wanted}


def test_a_plugin_is_a_kind_of_its_own() -> None:
    node = helper.make_node("topk", ["x"], ["y", "z"], "it", domain=DOMAIN)
    assert node_kinds(helper.make_model(helper.make_graph([node], "one", [], []))) == {"it": "plugin"}


def test_a_layer_is_of_its_most_costly_kind() -> None:
    kinds = {"conv": "convolution", "add": "elementwise", "move": "data movement", "exp": "softmax"}
    assert layer_kind(EngineLayer("x"), ["move", "add", "conv"], kinds) == "convolution"
    assert layer_kind(EngineLayer("x"), ["move", "add"], kinds) == "elementwise"
    assert layer_kind(EngineLayer("x", "Myelin"), ["exp", "add"], kinds) == "Myelin region without products"
    assert layer_kind(EngineLayer("x", "Shuffle"), [], kinds) == "TensorRT's Shuffle"
