"""Values of a network that a pattern captures: from attributes, from lists, from constants; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from declared_kernels import declared
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import FloatAttribute
from lenet_trt.kernel.pattern import DOMAIN, Pattern
from plain_runtime import run


def network(
    body: str, opset: int = 17, inputs: str = "float[n, 6] x", outputs: str = "float[n, m] y"
) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> network ({inputs}) => ({outputs}) {{ {body} }}'
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


def attributes(model: onnx.ModelProto) -> list[dict[str, Any]]:
    nodes = [node for node in model.graph.node if node.domain == DOMAIN]
    found = [{entry.name: helper.get_attribute_value(entry) for entry in node.attribute} for node in nodes]
    return [{name: value for name, value in each.items() if not name.startswith("plugin_")} for each in found]


def same(model: onnx.ModelProto, fused: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """Both files give the same in ONNX Runtime."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    for one, other in zip(run(model, x=x), run(fused, x=x), strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("opset", [7, 11, 12, 17, 22])
def test_layers_of_one_kernel_have_each_its_own_number(opset: int) -> None:
    model = network(
        "a = LeakyRelu<alpha = 0.3>(x) b = Neg(a) c = LeakyRelu(b) d = Neg(c) y = LeakyRelu<alpha = 0.3>(d)", opset
    )
    fused = fuse(model, [declared("leaky_relu")]).model
    assert attributes(fused) == [{"alpha": pytest.approx(alpha)} for alpha in (0.3, 0.01, 0.3)]
    same(model, fused, (5, 6))


@pytest.mark.parametrize("opset", [11, 13, 22])
def test_lists_are_read_into_the_attributes_that_stand_in_them(opset: int) -> None:
    pool = "AveragePool<kernel_shape = [3, 3], count_include_pad = 1"
    model = network(
        f"a = {pool}, strides = [2, 2], pads = [1, 1, 1, 1]>(x) y = {pool}>(a)",
        opset,
        "float[n, 2, 12, 11] x",
        "float[n, 2, h, w] y",
    )
    fused = fuse(model, [declared("average_pool3")]).model
    assert attributes(fused) == [{"pad": 1, "stride": 2}, {"pad": 0, "stride": 1}]
    same(model, fused, (4, 2, 12, 11))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("pads = [1, 1, 0, 1]", "AveragePool has pads [1, 1, 0, 1]; average_pool3 wants [pad, pad, pad, pad]"),
        ("strides = [2, 1]", "AveragePool has strides [2, 1]; average_pool3 wants [stride, stride]"),
        ("pads = [3, 3, 3, 3], strides = [4, 4]", "average_pool3: pad is 3; it can be an integer from 0 to 2"),
    ],
)
def test_a_number_that_the_kernel_does_not_take_is_a_refusal_with_the_reason(said: str, why: str) -> None:
    pool = f"AveragePool<kernel_shape = [3, 3], count_include_pad = 1, {said}>"
    model = network(f"y = {pool}(x)", 17, "float[n, 2, 12, 11] x", "float[n, 2, h, w] y")
    assert [refusal.reason for refusal in fuse(model).refusals if refusal.kernel == "average_pool3"] == []
    with pytest.raises(LenetTrtError) as caught:
        fuse(model, [declared("average_pool3")])
    assert why in str(caught.value)


def topk(k: str, opset: int = 17, outputs: str = "float[n, m] y") -> onnx.ModelProto:
    return network(f"k = {k} y, i = TopK(x, k)", opset, outputs=outputs)


@pytest.mark.parametrize("opset", [11, 17, 23])
def test_a_constant_input_is_an_attribute(opset: int) -> None:
    model = topk("Constant<value = int64[1] {3}>()", opset)
    fused = fuse(model, [declared("topk_values")]).model
    assert attributes(fused) == [{"k": 3}]
    same(model, fused, (5, 6))


def test_two_constants_are_two_bodies_of_one_function() -> None:
    model = network(
        "k = Constant<value = int64[1] {4}>() l = Constant<value = int64[1] {2}>() "
        "a, i = TopK(x, k) b = Neg(a) y, j = TopK(b, l)"
    )
    fused = fuse(model, [declared("topk_values")]).model
    assert attributes(fused) == [{"k": 4}, {"k": 2}]
    assert len(fused.functions) == 1
    same(model, fused, (5, 6))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (topk("Shape<start = 0, end = 1>(x)"), "k (k) is computed in the network; topk_values wants one constant"),
        (topk("Constant<value = int64[1] {7}>()"), "topk_values wants k <= w, and k = 7, w = 6"),
        (topk("Constant<value = int64[1] {65}>()"), "topk_values: k is 65; it can be an integer from 1 to 64"),
        (topk("Constant<value = int64[1] {3}>()", outputs="float[n, m] y, int64[n, m] i"), "i"),
    ],
)
def test_a_place_that_does_not_fit_is_refused(model: onnx.ModelProto, why: str) -> None:
    with pytest.raises(LenetTrtError) as caught:
        fuse(model, [declared("topk_values")])
    assert why in str(caught.value)


def shifted(op: Any, x: Any, epsilon: Any) -> Any:
    return op.Sqrt(op.Add(x, epsilon))


@pytest.mark.parametrize(("element", "value"), [("float", "{0.001}"), ("float", "[1] {0.001}")])
def test_a_constant_of_one_element_is_a_float(element: str, value: str) -> None:
    kernel = replace(
        declared("leaky_relu"), attributes=(FloatAttribute("epsilon", (1e-5,), ""),), patterns=(Pattern(shifted),)
    )
    model = network(f"e = Constant<value = {element}{value}>() a = Add(x, e) y = Sqrt(a)")
    fused = fuse(model, [kernel]).model
    assert attributes(fused) == [{"epsilon": pytest.approx(0.001)}]
    with pytest.raises(LenetTrtError, match="is 2 numbers; leaky_relu wants one constant"):
        fuse(
            network("e = Constant<value = float[1, 2] {1, 2}>() a = Add(x, e) y = Sqrt(a)", 17, "float[n, 2] x"),
            [kernel],
        )


def test_a_pattern_with_a_parameter_of_no_meaning_is_refused() -> None:
    kernel = replace(declared("leaky_relu"), patterns=(Pattern(lambda op, x, beta: op.LeakyRelu(x, alpha=beta)),))
    with pytest.raises(LenetTrtError, match="parameters beta, x; wanted op and then x, and may have alpha"):
        fuse(network("y = LeakyRelu(x)"), [kernel])
