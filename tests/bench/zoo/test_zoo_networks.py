"""The networks of the survey: exported, compared with torch, fused, and with floors; two of them by default."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.bench.zoo.networks import ZOO, ZooNetwork
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.work import network_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.optimize.gate import float64_outputs, worst_error
from plain_runtime import run

QUICK = ("detector", "point_cloud")
# Both are published: multiply-adds of one image of 224 x 224, in 10^9.
GIGA_MULTIPLY_ADDS = {"resnet18": 1.81, "efficientnet_b0": 0.39}
EVERY = [pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.slow) for each in ZOO]


def named(name: str) -> ZooNetwork:
    return next(each for each in ZOO if each.name == name)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ZooNetwork], tuple[Path, float]]:
    """A function that exports a network once."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[zoo]'")
    from lenet_trt.bench.zoo.exported import write

    folder = tmp_path_factory.mktemp("zoo")
    known: dict[str, tuple[Path, float]] = {}

    def export(network: ZooNetwork) -> tuple[Path, float]:
        if network.name not in known:
            path = folder / f"{network.name}.onnx"
            try:
                known[network.name] = path, write(network, path)
            except LenetTrtError as error:
                if "torchvision" not in str(error):
                    raise
                pytest.skip(str(error))
        return known[network.name]

    return export


@pytest.mark.parametrize("network", EVERY)
def test_an_export_is_what_tensorrt_8_reads_and_computes_what_torch_does(
    network: ZooNetwork, exported: Callable[[ZooNetwork], tuple[Path, float]]
) -> None:
    path, error = exported(network)
    assert 0 < error < 1e-4
    model = onnx.load(path)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {value.name for value in model.graph.input} == set(network.inputs)
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "n"
    one, three = run(model, **network.drawn(1)), run(model, **network.drawn(3))
    assert [each.shape[0] for each in (*one, *three)] == [1] * len(one) + [3] * len(three)
    # Random weights must not end in an answer that is the same for every input.
    assert np.std(three[0].astype(np.float64), axis=0).max() > 1e-6


@pytest.mark.parametrize("network", EVERY)
def test_the_graph_runtime_has_its_operators(
    network: ZooNetwork, exported: Callable[[ZooNetwork], tuple[Path, float]]
) -> None:
    model, inputs = onnx.load(exported(network)[0]), network.drawn(2)
    given = [inputs[value.name] for value in model.graph.input]
    assert worst_error(run(model, **inputs), float64_outputs(model, given)) < 2e-5


@pytest.mark.parametrize("network", EVERY)
def test_a_fused_network_computes_the_same(
    network: ZooNetwork, exported: Callable[[ZooNetwork], tuple[Path, float]]
) -> None:
    model = onnx.load(exported(network)[0])
    fused = fuse(model, "auto").model
    if network.name == "point_cloud":
        assert list(plugin_nodes(fused).values()) == ["topk", "topk", "dense_bias_relu", "dense_bias_relu"]
    for seen, wanted in zip(run(fused, **network.drawn(3)), run(model, **network.drawn(3)), strict=True):
        assert relative_error(seen.astype(np.float64), wanted.astype(np.float64)) < 1e-4


@pytest.mark.parametrize("network", EVERY)
def test_every_node_has_a_floor_by_data_sheet(
    network: ZooNetwork,
    exported: Callable[[ZooNetwork], tuple[Path, float]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, _ = exported(network)
    needed = []
    for batch in ("1", "32"):
        assert main(["roofline", str(path), "--datasheet", "H200", "--batch", batch, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        needed.append(found["needed_us"])
        assert 0 < found["as_one"]["needed_us"] <= found["needed_us"]
    assert needed[0] < needed[1]
    if network.name in GIGA_MULTIPLY_ADDS:
        nodes = network_of(onnx.load(path), {"n": 1}).nodes
        multiply_adds = sum(node.work.flops for node in nodes if node.op in ("Conv", "Gemm")) / 2e9
        assert multiply_adds == pytest.approx(GIGA_MULTIPLY_ADDS[network.name], rel=0.03)


def test_two_exports_are_the_same(exported: Callable[[ZooNetwork], tuple[Path, float]], tmp_path: Path) -> None:
    network = named("point_cloud")
    path, _ = exported(network)
    from lenet_trt.bench.zoo.exported import write

    write(network, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_a_wrong_export_is_refused(exported: Callable[[ZooNetwork], tuple[Path, float]]) -> None:
    network = named("point_cloud")
    model = onnx.load(exported(network)[0])
    from lenet_trt.bench.zoo.exported import built, difference

    bias = next(each for each in model.graph.initializer if each.name == "head.2.bias")
    changed = onnx.numpy_helper.to_array(bias) + np.float32(0.1)
    bias.CopyFrom(onnx.numpy_helper.from_array(changed, bias.name))
    with pytest.raises(LenetTrtError, match="point_cloud: ONNX Runtime's results differ from torch's"):
        difference(network, built(network), model)


def test_a_torchvision_that_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchvision.models", None)
    network = named("resnet18")
    with pytest.raises(LenetTrtError, match="pip install 'lenet-trt\\[zoo\\]'"):
        network.make()
