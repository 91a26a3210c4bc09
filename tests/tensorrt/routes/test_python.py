"""The IPluginV3 route: real TensorRT-RTX builds for every target, what is stored, and failures that say what failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tensorrt_stubs
from declared_kernels import DECLARED, declared
from lenet_trt.errors import LenetTrtError
from lenet_trt.export import conv_onnx, matmul_onnx
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.attributes import chosen_values
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from lenet_trt.onnx_model.profiles import inputs_of, profile_for
from lenet_trt.tensorrt import flavors as flavor
from lenet_trt.tensorrt.engine import engine_from_onnx
from lenet_trt.tensorrt.flavors import Flavor
from lenet_trt.tensorrt.routes import python
from lenet_trt.tensorrt.routes.failures import reporting

RTX_TARGETS = (75, 80, 86, 89, 120, 121)
LAYER_BY_LAYER = "conv5x5_bias_relu_pool2,dense_bias_relu"
UNFUSED = "conv5x5_bias,maxpool2,dense_bias_relu"


@pytest.fixture(scope="module")
def rtx() -> Flavor:
    return flavor.select("rtx")


@pytest.fixture(scope="module")
def models(lenet5: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, onnx.ModelProto]:
    folder = tmp_path_factory.mktemp("models")
    matmul_onnx(folder / "matmul.onnx")
    conv_onnx(folder / "conv.onnx")
    return {"lenet5": onnx.load(lenet5), **{name: onnx.load(folder / f"{name}.onnx") for name in ("matmul", "conv")}}


def build(rtx: Flavor, model: onnx.ModelProto, *targets: str) -> bytes:
    profiles = profile_for(inputs_of(model), None, None)
    plugins = list(plugin_nodes(model).values())
    return engine_from_onnx(model, rtx, profiles=profiles, targets=targets, plugins=plugins)


def layers(rtx: Flavor, model: onnx.ModelProto) -> Any:
    """Parse the model; the network with the objects that it needs alive."""
    trt = rtx.trt
    python.register_creators(trt, [*registry.kernels().values(), *map(declared, DECLARED)])
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    with reporting():
        assert parser.parse(model.SerializeToString())
    return SimpleNamespace(network=network, keep=(logger, builder, parser))


def test_the_targets_tested_are_those_of_this_tensorrt_rtx(rtx: Flavor) -> None:
    assert rtx.sms() == RTX_TARGETS


@pytest.mark.parametrize("sm", RTX_TARGETS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("network", "plugins"),
    [
        ("lenet5", "lenet5"),
        ("lenet5", LAYER_BY_LAYER),
        ("lenet5", UNFUSED),
        ("matmul", "batched_matvec"),
        ("conv", "conv5x5_bias"),
    ],
)
def test_every_plugin_builds_for_every_target(rtx, models, network, plugins, precision, sm) -> None:
    model = fuse(convert(models[network], precision), plugins).model
    plan = build(rtx, model, sm)
    for name in set(plugin_nodes(model).values()):
        assert name.encode() in plan


@pytest.mark.parametrize("sm", RTX_TARGETS[1:])
def test_bfloat16_builds_where_tensorrt_rtx_has_it(rtx, models, sm: str) -> None:
    build(rtx, fuse(convert(models["lenet5"], "bf16"), LAYER_BY_LAYER).model, sm)


def test_fp32_lenet5_for_turing_builds_with_the_dense_plugin_alone(rtx, models) -> None:
    with pytest.raises(LenetTrtError, match="could not build"):
        build(rtx, models["lenet5"], 75)
    fused = fuse(models["lenet5"], "dense_bias_relu").model
    assert {"Conv", "MaxPool"} <= {node.op_type for node in fused.graph.node}
    assert len(build(rtx, fused, 75)) > 0


@pytest.mark.parametrize("plugins", ["lenet5", LAYER_BY_LAYER, UNFUSED])
def test_each_node_is_a_plugin_layer_with_the_declared_output(rtx, models, plugins: str) -> None:
    model = fuse(models["lenet5"], plugins).model
    parsed = layers(rtx, model)
    kinds = [parsed.network.get_layer(i).type for i in range(parsed.network.num_layers)]
    assert kinds.count(rtx.trt.LayerType.PLUGIN_V3) == len(plugin_nodes(model))
    assert rtx.trt.LayerType.MATRIX_MULTIPLY not in kinds
    assert tuple(parsed.network.get_output(0).shape) == (-1, 10)
    assert parsed.network.get_output(0).dtype == rtx.trt.float32


def test_weights_are_constants_of_the_network_and_inputs_of_the_plugin(rtx, models) -> None:
    parsed = layers(rtx, fuse(models["lenet5"], "lenet5").model)
    every = [parsed.network.get_layer(i) for i in range(parsed.network.num_layers)]
    (plugin,) = (layer for layer in every if layer.type == rtx.trt.LayerType.PLUGIN_V3)
    assert plugin.num_inputs == 11
    assert sum(layer.type == rtx.trt.LayerType.CONSTANT for layer in every) == 10


def test_the_size_of_an_output_is_computed_with_the_nodes_attributes(rtx) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> network (float[n, 2, 12, 11] x) => (float[n, 2, h, w] y) {
        y = AveragePool<kernel_shape = [3, 3], count_include_pad = 1, strides = [4, 4], pads = [2, 2, 2, 2]>(x)
    }"""
    model = fuse(onnx.parser.parse_model(text), [declared("average_pool3")]).model
    parsed = layers(rtx, model)
    assert tuple(parsed.network.get_output(0).shape) == (-1, 2, 4, 4)


def test_the_workspace_suffices_for_the_largest_sizes_and_goes_to_the_launch(rtx, launches) -> None:
    trt, creator = rtx.trt, creator_of(rtx, "split_softmax")
    plugin = creator.create_plugin("p", trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD)
    tensor = trt.DynamicPluginTensorDesc()
    tensor.desc.dims, tensor.desc.type = (-1, -1), trt.float32
    tensor.min, tensor.max = (1, 1), (7, 3000)
    assert plugin.get_workspace_size([tensor], [tensor]) == 7 * 3 * 8
    for shape, workspace in (((7, 3000), (4096,)), ((7, 0), ())):
        tensors = described(rtx, shape)
        plugin.on_shape_change(tensors, tensors)
        plugin.enqueue(tensors, tensors, [16], [32], 4096, 7)
        assert launches[-1] == ("launched", shape, (16, 32, *workspace), 7)


def creator_of(rtx: Flavor, name: str) -> Any:
    python.register_creators(rtx.trt, [*registry.kernels().values(), *map(declared, DECLARED)])
    return rtx.trt.get_plugin_registry().get_creator(name, "1", DOMAIN)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        (kernel.name, a.name, value)
        for kernel in (*registry.kernels().values(), *map(declared, DECLARED))
        for a in kernel.attributes
        for value in a.examples
    ],
)
def test_attributes_survive_being_stored(rtx, name: str, attribute: str, value: Any) -> None:
    trt = rtx.trt
    creator = creator_of(rtx, name)
    kernel = creator.kernel
    wanted = chosen_values(kernel, {attribute: value})
    arrays = python.stored_arrays(kernel, wanted)
    given = python.plugin_fields(trt, kernel, arrays)
    plugin = creator.create_plugin("p", given, trt.TensorRTPhase.BUILD)
    assert plugin.attributes == wanted
    copy = plugin.clone()  # which holds what its fields point to
    stored = copy.get_fields_to_serialize()
    assert {field.name for field in stored} == {a.name for a in plugin.kernel.attributes}
    again = creator.create_plugin("p", stored, trt.TensorRTPhase.RUNTIME)
    assert again.attributes == plugin.attributes


def test_attributes_are_in_the_engine(rtx, models) -> None:
    assert b"relu" in build(rtx, fuse(models["lenet5"], "dense_bias_relu").model, 86)


def test_a_missing_attribute_is_its_default_and_a_wrong_one_is_refused(rtx) -> None:
    trt, creator = rtx.trt, creator_of(rtx, "dense_bias_relu")
    plugin = creator.create_plugin("p", trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD)
    assert plugin.attributes == {a.name: a.examples[0] for a in plugin.kernel.attributes}
    wrong = trt.PluginField("relu", np.array([7], dtype=np.int32), trt.PluginFieldType.INT32)
    with pytest.raises(LenetTrtError, match="relu is 7"):
        creator.create_plugin("p", trt.PluginFieldCollection([wrong]), trt.TensorRTPhase.BUILD)


def test_what_fails_inside_a_plugin_is_told_and_not_only_printed(rtx, capfd) -> None:
    make = helper.make_tensor_value_info
    node = helper.make_node("maxpool2", ["x"], ["y"], domain=DOMAIN, plugin_version="1", plugin_namespace=DOMAIN)
    graph = helper.make_graph(
        [node],
        "g",
        [make("x", TensorProto.INT32, ["n", 1, 8, 8])],
        [make("y", TensorProto.INT32, ["n", 1, 4, 4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(LenetTrtError, match=r"the plugin maxpool2 \(.*\) failed: .*int32"):
        build(rtx, model, 86)
    capfd.readouterr()


@pytest.mark.skipif(tensorrt_stubs.missing() is not None, reason=str(tensorrt_stubs.missing()))
def test_the_same_plugin_is_one_of_full_tensorrt() -> None:
    script = Path(__file__).with_name("python_contract.py")
    answer = json.loads(tensorrt_stubs.run_with_bindings(script).splitlines()[-1])
    assert int(answer["version"].split(".")[0]) >= 10
    assert answer["kernels"] == [*registry.kernels(), *DECLARED]


def test_plugins_of_a_network_that_is_gone_are_deleted_once() -> None:
    script = Path(__file__).with_name("plugin_lifetimes.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_registering_again_changes_nothing(rtx) -> None:
    kernels = list(registry.kernels().values())
    assert (
        python.register_creators(rtx.trt, kernels)
        == python.register_creators(rtx.trt, kernels)
        == tuple(registry.kernels())
    )


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be compiled ("prepared") and launched on a GPU, in order."""
    log: list[Any] = []

    def prepare(bound: Any) -> Any:
        log.append(("prepared", bound.input_shapes, bound.attributes))
        call = lambda pointers, stream: log.append(("launched", bound.input_shapes[0], tuple(pointers), stream))  # noqa: E731
        call.workspace_bytes = bound.workspace_bytes(bound.kernel.variants[0])  # type: ignore[attr-defined]
        return call

    monkeypatch.setattr(python, "prepare", prepare)
    return log


def described(rtx: Flavor, *shapes: tuple[int, ...]) -> list[Any]:
    entries = []
    for shape in shapes:
        entry = rtx.trt.PluginTensorDesc()
        entry.dims, entry.type, entry.format = shape, rtx.trt.float32, rtx.trt.TensorFormat.LINEAR
        entries.append(entry)
    return entries


def test_shapes_prepare_a_launch_once_and_enqueue_only_launches(rtx, launches) -> None:
    trt = rtx.trt
    relu = trt.PluginField("relu", np.array([0], dtype=np.int32), trt.PluginFieldType.INT32)
    creator = creator_of(rtx, "dense_bias_relu")
    plugin = creator.create_plugin("p", trt.PluginFieldCollection([relu]), trt.TensorRTPhase.RUNTIME)
    plugin = plugin.attach_to_context(None)
    for rows in (3, 5, 3):
        inputs = described(rtx, (rows, 8), (4, 8), (4,))
        outputs = described(rtx, (rows, 4))
        plugin.on_shape_change(inputs, outputs)
        plugin.enqueue(inputs, outputs, [16, 32, 48], [64], 0, 7)
    prepared = [entry for entry in launches if entry[0] == "prepared"]
    assert [shapes[0] for _, shapes, _ in prepared] == [(3, 8), (5, 8)]
    assert all(attributes == {"relu": 0} for *_, attributes in prepared)
    assert [entry[1:] for entry in launches if entry[0] == "launched"] == [
        ((rows, 8), (16, 32, 48, 64), 7) for rows in (3, 5, 3)
    ]


def test_sizes_that_the_kernel_is_not_for_are_refused_and_no_older_launch_runs(rtx, launches) -> None:
    kernel = declared("average_pool3")
    plugin = python._classes(rtx.trt)[1](kernel, {"pad": 0})
    plugin = plugin.attach_to_context(None)
    good, bad, output = (described(rtx, shape) for shape in ((3, 6, 5, 9), (3, 6, 5, 2), (3, 6, 3, 7)))
    plugin.on_shape_change(good, output)
    plugin.enqueue(good, output, [16], [32], 0, 7)
    with pytest.raises(LenetTrtError, match=r"average_pool3 wants 3 <= w \+ 2 \* pad, and pad = 0, w = 2"):
        plugin.on_shape_change(bad, output)
    with pytest.raises(LenetTrtError, match="shapes"):
        plugin.enqueue(bad, output, [16], [32], 0, 7)
    assert [entry[0] for entry in launches] == ["prepared", "launched"]


def test_sizes_that_are_known_while_an_engine_is_built_are_checked_there(rtx) -> None:
    kernel = declared("average_pool3")
    plugin = python._classes(rtx.trt)[1](kernel, {"pad": 0})
    for shape, fits in (((-1, 6, -1, 9), True), ((-1, 6, -1, 2), False), ((-1, 6, 2, -1), False)):
        entry = rtx.trt.DynamicPluginTensorDesc()
        (entry.desc,) = described(rtx, shape)
        if fits:
            plugin.configure_plugin([entry], [])
        else:
            with pytest.raises(LenetTrtError, match="average_pool3 wants 3 <= "):
                plugin.configure_plugin([entry], [])


def test_enqueue_before_the_shapes_are_known_is_an_error(rtx) -> None:
    plugin = creator_of(rtx, "maxpool2").create_plugin(
        "p", rtx.trt.PluginFieldCollection([]), rtx.trt.TensorRTPhase.RUNTIME
    )
    with pytest.raises(LenetTrtError, match="shapes"):
        plugin.enqueue([], [], [0], [0], 0, 0)
