"""The roofline of an engine that was traced with its layer information: its own types, and its layers in one row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lenet_trt.floors.work import ModelWork, network_of
from lenet_trt.onnx_model.read import load_lenet5
from lenet_trt.roofline.stage import roofline
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.engine import with_layers
from lenet_trt.trace.timeline import Timeline
from traced import CEILINGS, call, kernel, repeated

N = 64


@pytest.fixture(scope="module")
def network() -> ModelWork:
    return network_of(load_lenet5()[0], {"n": N})


def engine(dtype: str) -> Timeline:
    happens: list[Any] = [call(0, 1), kernel(2, 22, "conv1 + relu1"), kernel(23, 33, "pool1")]
    layers = (
        EngineLayer(
            "conv1 + relu1",
            "CaskConvolution",
            inputs=(LayerTensor("images", (N, 1, 28, 28), dtype),),
            outputs=(LayerTensor("c1", (N, 6, 24, 24), dtype),),
            weights=(LayerTensor("Weights", (150,), dtype), LayerTensor("Bias", (6,), dtype)),
            depth=25,
        ),
        EngineLayer(
            "pool1",
            "CaskPooling",
            inputs=(LayerTensor("c1", (N, 6, 24, 24), dtype),),
            outputs=(LayerTensor("p1", (N, 6, 12, 12), dtype),),
        ),
    )
    return with_layers(repeated(40, happens, sizes={"n": N}), layers)


@pytest.mark.parametrize(("dtype", "size", "arithmetic"), [("float32", 4, "split"), ("float16", 2, "fp16")])
def test_a_layer_is_one_row_in_the_type_that_ran(network: ModelWork, dtype: str, size: int, arithmetic: str) -> None:
    found = roofline(network, CEILINGS, timeline=engine(dtype))
    first = found.points[0]
    assert (first.work.node, first.work.op, first.work.arithmetic) == ("conv1 + relu1", "Conv + Relu", arithmetic)
    assert first.work.work.total_bytes == size * (N * 28 * 28 + N * 6 * 24 * 24 + 156)
    assert first.work.work.flops == 2 * 25 * N * 6 * 24 * 24
    assert first.taken_us == 20
    assert [point.work.node for point in found.points][1:3] == ["pool1", "conv2"]
    assert found.points[1].work.work.total_bytes == size * N * 6 * (24 * 24 + 12 * 12)


def test_without_layer_information_the_models_types_hold(network: ModelWork) -> None:
    plain = replace(engine("float16"), layers=())
    point = roofline(network, CEILINGS, timeline=plain).points[0]
    assert (point.work.node, point.work.op) == ("conv1 + relu1", "Conv + Relu")
    assert point.work.work.total_bytes == 4 * (N * 28 * 28 + N * 6 * 24 * 24 + 156)
