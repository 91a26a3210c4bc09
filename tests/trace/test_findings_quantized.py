"""What quantization costs: each kind with its microseconds, where it should be found and not where it should not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lenet_trt.floors.work import NodeWork
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.engine import traced_work, with_layers
from lenet_trt.trace.findings import Finding, findings_of
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.timeline import Timeline
from traced import CEILINGS, call, kernel, node, repeated

SHAPE = (32, 16, 56, 56)
ELEMENTS = 32 * 16 * 56 * 56


def tensor(name: str, dtype: str) -> LayerTensor:
    return LayerTensor(name, SHAPE, dtype)


def layer(name: str, reads: tuple[str, str], writes: tuple[str, str], kind: str = "Convolution") -> EngineLayer:
    """A layer that reads and writes a tensor of (name, type)."""
    return EngineLayer(
        name,
        kind,
        inputs=(tensor(*reads),),
        outputs=(tensor(*writes),),
        depth=144 if kind == "Convolution" else None,
    )


def found(
    layers: Sequence[EngineLayer], times: dict[str, float], model: Sequence[NodeWork] = (), **kernels: str
) -> list[Finding]:
    """The findings of an engine whose layers take so long, one after another."""
    at, happens = 2.0, [call(0, 1)]
    for name, us in times.items():
        happens.append(kernel(at, at + us, name, kernels.get(name, f"kernel_of_{name}")))
        at += us
    trace: Timeline = with_layers(repeated(at + 2, happens), layers)
    nodes = traced_work(trace, model)
    books = ledger_of(trace, nodes, CEILINGS)
    result = findings_of(trace, books, nodes, CEILINGS)
    claimed = sum(entry.recoverable_us for entry in result)
    assert claimed <= books.end_to_end_us - books.total.floor_us + 1e-6
    assert all(entry.evidence and entry.advice for entry in result)
    return [entry for entry in result if entry.kind.startswith(("quantization", "float"))]


def convolution(name: str, arithmetic: str = "int8") -> Any:
    return node(name, "Conv", ELEMENTS, ELEMENTS, 2 * 144 * ELEMENTS, arithmetic)


CONV1 = layer("conv1", ("x", "int8"), ("a", "float32"))
CONV2 = layer("conv2", ("b", "int8"), ("y", "int8"))
QUANTIZE = layer("a_QuantizeLinear", ("a", "float32"), ("b", "int8"), "Reformat")


def test_a_pair_behind_a_layer_of_8_bits_blocks_a_fusion() -> None:
    times = {"conv1": 12, "a_QuantizeLinear": 9, "conv2": 8}
    (finding,) = found([CONV1, QUANTIZE, CONV2], times)
    assert (finding.kind, finding.node) == ("quantization_blocks_fusion", "a_QuantizeLinear")
    assert finding.recoverable_us == pytest.approx(9)
    assert "conv1 reads int8 and writes float32, and a_QuantizeLinear is a kernel of its own" in finding.evidence[0]
    assert "takes 9.0 us" in finding.evidence[1]


def test_a_layer_that_writes_8_bits_itself_blocks_nothing() -> None:
    joined = layer("conv1", ("x", "int8"), ("b", "int8"))
    assert found([joined, CONV2], {"conv1": 12, "conv2": 8}) == []


def test_an_activation_of_its_own_behind_a_layer_of_8_bits() -> None:
    layers = [
        layer("conv1", ("x", "int8"), ("a", "int8")),
        layer("relu1", ("a", "int8"), ("b", "int8"), "PointWiseV2"),
        CONV2,
    ]
    model = [convolution("conv1"), node("relu1", "Relu", ELEMENTS, ELEMENTS), convolution("conv2")]
    times = {"conv1": 8, "relu1": 7, "conv2": 8}
    (finding,) = found(layers, times, model)
    assert (finding.kind, finding.node) == ("quantization_blocks_fusion", "relu1")
    # What the hardware needs to read and write it is its floor, which no finding promises.
    assert finding.recoverable_us == pytest.approx(7 - 2 * ELEMENTS / 1e6, abs=0.01)
    assert "quantization stands between the two" in finding.evidence[0]
    floats = [replace(each, inputs=(replace(each.inputs[0], dtype="float16"),)) for each in layers]
    assert found(floats, times) == [], "in float an activation apart has another reason"


def test_changes_that_cost_more_than_8_bits_save() -> None:
    layers = [
        layer("to int8", ("x", "float32"), ("b", "int8"), "Reformat"),
        layer("conv2", ("b", "int8"), ("c", "int8")),
        layer("to float", ("c", "int8"), ("y", "float32"), "Reformat"),
    ]
    (finding,) = found(layers, {"to int8": 6, "conv2": 4, "to float": 5})
    assert (finding.kind, finding.node) == ("quantization_does_not_pay", "conv2")
    # In fp16 the layer moves 2 bytes more an element, of 1.6 million in all, at 1 byte a picosecond.
    saved = 2 * ELEMENTS / 1e6
    assert finding.recoverable_us == pytest.approx(11 - saved, abs=0.01)
    assert finding.evidence[:2] == ("to int8 takes 6.0 us", "to float takes 5.0 us")
    assert f"needs {saved:.1f} us less for this layer in int8 than in fp16" in finding.evidence[2]
    assert "--keep conv2" in finding.advice


def test_changes_that_pay_are_no_finding() -> None:
    layers = [layer("to int8", ("x", "float32"), ("b", "int8"), "Reformat"), CONV2]
    assert found(layers, {"to int8": 3.1, "conv2": 100}) == []
    assert [entry.kind for entry in found(layers, {"to int8": 6, "conv2": 4})] == ["quantization_does_not_pay"]


def test_a_layer_that_runs_in_float_after_all() -> None:
    wide = layer("conv1", ("x", "float32"), ("y", "float32"))
    (finding,) = found([wide], {"conv1": 60}, [convolution("conv1")])
    assert (finding.kind, finding.node) == ("float_after_all", "conv1")
    assert finding.title == "conv1: the model has it in int8, and it runs in float"
    assert "32x16x56x56 float32 -> 32x16x56x56 float32; it takes 60.0 us" in finding.evidence[0]
    assert 0 < finding.recoverable_us < 60
    assert found([wide], {"conv1": 60}, [convolution("conv1", "split")]) == [], "the model has it in float too"
    narrow = layer("conv1", ("x", "int8"), ("y", "int8"))
    assert found([narrow], {"conv1": 60}, [convolution("conv1")]) == []


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw", ["float_after_all"]),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", ["float_after_all"]),
        ("sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32", []),
        ("mystery", []),
    ],
)
def test_without_layers_the_kernels_name_tells(name: str, kinds: list[str]) -> None:
    seen = found([], {"conv1": 60}, [convolution("conv1")], conv1=name)
    assert [entry.kind for entry in seen] == kinds


def test_small_costs_are_no_finding() -> None:
    assert found([CONV1, QUANTIZE, CONV2], {"conv1": 80, "a_QuantizeLinear": 0.9, "conv2": 70}) == []
