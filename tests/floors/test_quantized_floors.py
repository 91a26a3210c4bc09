"""Floors of quantized models: layers between Q/DQ read and write 8 bits, and Q/DQ that are joined cost nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.export.lenet5 import SHIPPED, lenet5_int8
from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.floor import Work
from lenet_trt.floors.work import NodeWork, network_of
from lenet_trt.onnx_model.quantization import in_float8

N = 100


def works(model: onnx.ModelProto) -> dict[str, NodeWork]:
    return {entry.node: entry for entry in network_of(model, {"n": N}).nodes}


def residual(quantized_input: bool = True) -> onnx.ModelProto:
    """x -> Conv 1x1 (8 channels, int8) -> Relu, which both a quantized Conv and an addition read."""
    tensors = {
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.int8),
        "w": np.ones((8, 8, 1, 1), np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"], name="q1"),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"], name="dq1"),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"], name="dqw"),
        helper.make_node("Conv", ["xd" if quantized_input else "x", "wd"], ["a"], name="conv1"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("QuantizeLinear", ["b", "s", "z"], ["bq"], name="q2"),
        helper.make_node("DequantizeLinear", ["bq", "s", "z"], ["bd"], name="dq2"),
        helper.make_node("Conv", ["bd", "wd"], ["c"], name="conv2"),
        helper.make_node("Add", ["c", "b"], ["y"], name="add"),
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 4, 4])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_lenet5_moves_a_quarter_of_the_bytes(kind: str) -> None:
    model = lenet5_int8()
    narrow, floats = works(model if kind == "int8" else in_float8(model)), works(onnx.load(SHIPPED))
    for name in ("conv1", "conv2", "fc1", "fc2", "fc3"):
        assert (narrow[name].arithmetic, floats[name].arithmetic) == (kind, "split")
        assert narrow[name].work.flops == floats[name].work.flops
    weights, bias = 6 * 25, 4 * 6
    assert narrow["conv1"].work.read_bytes == N * 28 * 28 + weights + bias
    assert narrow["conv1"].work.written_bytes == N * 6 * 24 * 24  # also before its ReLU
    assert narrow["pool1"].work == Work(N * 6 * 24 * 24, N * 6 * 12 * 12, 0)
    assert narrow["fc3"].work.written_bytes == 4 * N * 10  # the logits are float
    assert narrow["images_QuantizeLinear"].work.total_bytes == 5 * N * 28 * 28 + 5  # with its scale and zero point
    joined = [entry for entry in narrow.values() if entry.op in ("QuantizeLinear", "DequantizeLinear")][1:]
    assert len(joined) == 9
    assert all(entry.work.total_bytes == 0 for entry in joined)


def test_what_something_else_reads_as_float_is_written_as_float() -> None:
    found = works(residual())
    elements = N * 8 * 4 * 4
    assert found["conv1"].work.written_bytes == 4 * elements
    assert found["q2"].work == replace(found["q2"].work, read_bytes=4 * elements + 5, written_bytes=elements)
    assert found["conv2"].work.read_bytes == elements + 64
    assert found["conv2"].arithmetic == "int8"


def test_quantized_weights_alone_are_no_products_of_integers() -> None:
    found = works(residual(quantized_input=False))
    assert found["conv1"].arithmetic == "split"
    assert found["conv1"].work.read_bytes == 4 * N * 8 * 4 * 4 + 64


def test_a_dequantized_output_is_written_as_float() -> None:
    model = residual()
    del model.graph.node[7:]
    model.graph.output[0].name = "bd"
    found = works(model)
    assert found["dq2"].work.written_bytes == 4 * N * 8 * 4 * 4
    assert found["relu"].work.written_bytes == N * 8 * 4 * 4


def test_what_a_layer_in_float_reads_is_float_though_its_output_is_quantized() -> None:
    model = residual(quantized_input=False)
    model.graph.node.insert(0, helper.make_node("Sigmoid", ["x"], ["f"], name="sigmoid"))
    model.graph.node[4].input[0] = "f"
    del model.graph.node[-1]
    model.graph.output[0].name = "c"
    found = works(model)
    assert found["conv1"].work.written_bytes == N * 8 * 4 * 4
    assert found["sigmoid"].work.written_bytes == 4 * N * 8 * 4 * 4
    assert found["conv1"].work.read_bytes == 4 * N * 8 * 4 * 4 + 64


def test_a_gpu_without_float8_computes_it_as_fp16() -> None:
    for name, times in {"GeForce RTX 3090": 1, "A100 80GB SXM": 1, "GeForce RTX 4090": 2, "H200": 2}.items():
        ceilings = datasheet(name)
        assert ceilings.rate("fp8") == times * ceilings.rate("fp16")


def test_measured_rates_of_8_bits_come_before_multiples_of_fp16s() -> None:
    told = replace(datasheet("H200"), flop_per_s={"fp32": 60e12, "fp16": 900e12})
    assert told.rate("int8") == told.rate("fp8") == 1800e12
    seen = replace(told, flop_per_s={**told.flop_per_s, "int8": 1400e12, "fp8": 1500e12})
    assert (seen.rate("int8"), seen.rate("fp8")) == (1400e12, 1500e12)
    assert replace(seen, sm=80).rate("fp8") == 900e12
