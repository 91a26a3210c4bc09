"""Means over height and width, with these axes or without them: one kernel, and one function in a file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import parser

from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run

NAME = "global_average_pool"
CHANNELS, SIDE = 8, 7
# A gate of means that keep their axes, and a mean without them as in MnasNet.
GATED = "kept = {gate} scaled = Mul(x, kept) means = {mean} y = Gemm<transB = 1>(means, w, b)"
GATES = ["ReduceMean<axes = [-1, -2]>(x)", "ReduceMean<axes = [2, 3]>(x)"]


def model_of(body: str, result: Sequence[int] = (16,), batch: int | str = "n", opset: int = 17) -> onnx.ModelProto:
    sizes = ", ".join(map(str, [batch, *result]))
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g (float[{batch}, {CHANNELS}, {SIDE}, {SIDE}] x) => (float[{sizes}] y) {{ {body} }}""")
    constants = {"w": values(16, CHANNELS), "b": values(16), "axes": np.array([2, 3])}
    read = {name for node in model.graph.node for name in node.input}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if name in read]
    model.graph.initializer.extend(tensors)
    onnx.checker.check_model(model, full_check=True)
    return model


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def fused_alike(model: onnx.ModelProto, plugins: Sequence[str] = (NAME,)) -> list[str]:
    """Fuse a model, compare it with the plain one, and return its plugins."""
    fused = fuse(model, plugins).model
    onnx.checker.check_model(fused, full_check=True)
    x = values(3, CHANNELS, SIDE, SIDE)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    return list(plugin_nodes(fused).values())


@pytest.mark.parametrize("batch", [3, "n"])
@pytest.mark.parametrize(
    ("mean", "opset"),
    [
        ("ReduceMean<axes = [2, 3], keepdims = 0>(x)", 11),
        ("ReduceMean<axes = [-1, -2], keepdims = 0>(x)", 17),
        ("ReduceMean<keepdims = 0>(x, axes)", 18),
    ],
)
def test_a_mean_without_its_axes(mean: str, opset: int, batch: int | str) -> None:
    assert fused_alike(model_of(f"y = {mean}", (CHANNELS,), batch, opset)) == [NAME]
    model = model_of(f"means = {mean} y = Gemm<transB = 1>(means, w, b)", (16,), batch, opset)
    assert sorted(fused_alike(model, [NAME, "dense_bias_relu"])) == ["dense_bias_relu", NAME]


@pytest.mark.parametrize("axes", ["[1]", "[3]", "[1, 2]", "[2, 2]"])
def test_other_means_without_axes_stay(axes: str) -> None:
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[n, {CHANNELS}, {SIDE}, {SIDE}] x) => (float y) {{ y = ReduceMean<axes = {axes}, keepdims = 0>(x) }}""")
    assert not plugin_nodes(fuse(model, "all").model)


@pytest.mark.parametrize("gate", GATES)
def test_means_that_are_written_in_several_ways_share_a_function(gate: str) -> None:
    model = model_of(GATED.format(gate=gate, mean="ReduceMean<axes = [2, 3], keepdims = 0>(scaled)"))
    assert fused_alike(model) == [NAME] * 2


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_means_without_axes_in_16_bits(precision: str) -> None:
    model = convert(model_of("y = ReduceMean<axes = [2, 3], keepdims = 0>(x)", (CHANNELS,)), precision)
    fused = fuse(model, [NAME]).model
    onnx.checker.check_model(fused, full_check=True)
    assert list(plugin_nodes(fused).values()) == [NAME]
    if precision == "fp16":  # ONNX Runtime has no mean in bf16
        x = values(3, CHANNELS, SIDE, SIDE)
        (seen,), (wanted,) = run(fused, x), run(model, x)
        np.testing.assert_allclose(seen.astype(np.float32), wanted.astype(np.float32), rtol=0, atol=2e-3)
