"""Softmax and layer norms over the last axis are found in every opset and however they are written."""

from __future__ import annotations

import io
import logging
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

SOME = settings(max_examples=40)
OPSETS = range(11, 24)
KERNELS = ["softmax", "layer_norm", "add_layer_norm", "scale_add_softmax"]
BATCH = 3


def run_unoptimized(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its own fusion of a layer norm takes another epsilon where the constant is the first operand.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {session.get_inputs()[0].name: x}))


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def fused_and_compared(model: onnx.ModelProto, x: np.ndarray) -> list[str]:
    """The kernels that are used; the fused file is valid and computes the same."""
    fused = fuse(model, "all").model
    onnx.checker.check_model(fused, full_check=True)
    for got, wanted in zip(run_unoptimized(fused, x), run_unoptimized(model, x), strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    return used(fused)


def model_of(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], tensors: dict[str, np.ndarray], opset: int
) -> onnx.ModelProto:
    """A model from ``x`` with a symbolic batch to ``y``."""
    graph = helper.make_graph(
        nodes,
        "last axis",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def random_array(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


shapes = st.lists(st.sampled_from([1, 2, 5, 8]), min_size=1, max_size=3).map(lambda rest: (BATCH, *rest))


@SOME
@given(shapes, st.sampled_from(OPSETS), st.integers(-4, 3) | st.none())
def test_a_softmax_over_any_axis_computes_the_same_when_fused(
    shape: tuple[int, ...], opset: int, axis: int | None
) -> None:
    rank = len(shape)
    if axis is not None and not -rank <= axis < rank:
        return
    given_axis = {} if axis is None else {"axis": axis}
    model = model_of([helper.make_node("Softmax", ["x"], ["y"], **given_axis)], shape, {}, opset)
    first = (1 if opset < 13 else -1) if axis is None else axis
    first %= rank
    fits = first == rank - 1 or (first == 1 and all(size == 1 for size in shape[2:]))
    assert fused_and_compared(model, random_array(shape)) == (["softmax"] if fits else [])


@pytest.mark.parametrize("opset", [12, 13])
def test_before_opset_13_a_softmax_takes_its_axis_and_all_that_follow_as_one(opset: int) -> None:
    """A classifier over [n, 10, 1, 1] is the same in both; over [n, 2, 5] it is not."""
    for shape, kernels in (((3, 10, 1, 1), ["softmax"]), ((3, 2, 5), [])):
        model = model_of([helper.make_node("Softmax", ["x"], ["y"], axis=1)], shape, {}, opset)
        assert fused_and_compared(model, random_array(shape)) == kernels


def test_a_softmax_over_a_length_that_is_not_known_is_left() -> None:
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "length"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert used(fuse(model).model) == []


MASKS = {
    "a length each": ("n", 1, 1, 8),
    "causal": (5, 8),
    "causal, as in torch": (1, 1, 5, 8),
    "each head": ("n", 2, 5, 8),
    "one column": ("n", 1, 5, 1),
    "heads and lengths": (1, 2, 1, 8),
}


@pytest.mark.parametrize("opset", [11, 13, 23])
@pytest.mark.parametrize("scaling", ["", "Mul", "Mul first", "Div 8", "Div 7", "scales"])
@pytest.mark.parametrize("mask", MASKS)
def test_attention_with_a_mask(opset: int, scaling: str, mask: str) -> None:
    shape = MASKS[mask]
    nodes, scores = [], "x"
    tensors = {"factor": np.array({"Div 8": 8.0, "Div 7": 7.0}.get(scaling, 0.3), np.float32)}
    if scaling == "scales":
        tensors["factor"] = random_array((8,))
    if scaling:
        operands = ["factor", "x"] if scaling == "Mul first" else ["x", "factor"]
        nodes, scores = [helper.make_node("Div" if "Div" in scaling else "Mul", operands, ["scaled"])], "scaled"
    else:
        tensors = {}
    nodes += [
        helper.make_node("Add", [scores, "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"], axis=3),
    ]
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "attention",
        [make("x", TensorProto.FLOAT, ["n", 2, 5, 8]), make("mask", TensorProto.FLOAT, shape)],
        [make("y", TensorProto.FLOAT, ["n", 2, 5, 8])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    fused = fuse(model, "all").model
    onnx.checker.check_model(fused, full_check=True)
    values = {
        "x": random_array((BATCH, 2, 5, 8)),
        "mask": random_array(tuple(BATCH if size == "n" else size for size in shape)),
    }
    wanted, got = (run(each, **values)[0] for each in (model, fused))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    together = mask not in ("one column", "heads and lengths")
    assert used(fused) == (["scale_add_softmax"] if together else ["softmax"])
    if together:
        (node,) = (node for node in fused.graph.node if node.domain == DOMAIN)
        scale = next(entry.f for entry in node.attribute if entry.name == "scale")
        scales = {"Mul": 0.3, "Mul first": 0.3, "Div 8": 0.125}
        assert scale == pytest.approx(scales.get(scaling, 1.0), rel=1e-6)


class Norm:
    """Write a layer norm as its nine nodes, or with one thing changed."""

    def __init__(self, opset: int, shape: tuple[int, ...], change: str = "", **ways: Any) -> None:
        self.opset, self.shape, self.change, self.ways = opset, shape, change, ways
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, np.ndarray] = {}

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def constant(self, values: Any) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = np.asarray(values)
        return name

    def mean(self, value: str, axis: int) -> str:
        if self.opset < 18:
            return self.add("ReduceMean", value, axes=[axis])
        return self.add("ReduceMean", value, self.constant(np.array([axis], np.int64)))

    def commutative(self, op_type: str, value: str, constant: str) -> str:
        pair = (constant, value) if self.ways.get("swapped") else (value, constant)
        return self.add(op_type, *pair)

    def model(self) -> onnx.ModelProto:
        ways, change = self.ways, self.change
        axis = len(self.shape) - 1 if ways.get("positive") else -1
        if change == "axis":
            axis = 1
        distance = self.add("Sub", "x", self.mean("x", axis))
        if change == "absolute":
            square = self.add("Abs", distance)
        elif ways.get("product"):
            square = self.add("Mul", distance, distance)
        else:
            square = self.add("Pow", distance, self.constant(np.float32(3.0 if change == "cube" else 2.0)))
        variance = self.mean(square, -1 if change == "axis" and axis != len(self.shape) - 1 else axis)
        epsilon = np.float32(ways.get("epsilon", 1e-5))
        size = self.shape[-1]
        shifted = self.commutative(
            "Add", variance, self.constant(np.full(size, epsilon) if change == "epsilons" else epsilon)
        )
        quotient = self.add("Div", distance, self.add("Sqrt", shifted))
        scale = 1 if change == "one scale" else size
        scaled = self.commutative("Mul", quotient, self.constant(random_array((scale,))))
        self.commutative("Add", scaled, self.constant(random_array((size,)) * 0.5))
        self.nodes[-1].output[0] = "y"
        return model_of(self.nodes, self.shape, self.tensors, self.opset)


@SOME
@given(
    st.sampled_from(OPSETS),
    st.sampled_from([(BATCH, 5), (BATCH, 4, 6), (BATCH, 2, 3, 5)]),
    st.fixed_dictionaries(
        {
            "positive": st.booleans(),
            "product": st.booleans(),
            "swapped": st.booleans(),
            "epsilon": st.sampled_from([1e-5, 1e-6, 1e-12, 0.25]),
        }
    ),
)
def test_a_layer_norm_of_nine_nodes_is_found_however_it_is_written(
    opset: int, shape: tuple[int, ...], ways: dict[str, Any]
) -> None:
    assert fused_and_compared(Norm(opset, shape, **ways).model(), random_array(shape)) == ["layer_norm"]


@pytest.mark.parametrize("opset", [11, 17, 18, 23])
@pytest.mark.parametrize("change", ["axis", "absolute", "cube", "epsilons", "one scale"])
def test_what_only_looks_like_a_layer_norm_is_left(opset: int, change: str) -> None:
    shape = (BATCH, 4, 6)
    assert fused_and_compared(Norm(opset, shape, change).model(), random_array(shape)) == []


@SOME
@given(
    st.sampled_from(range(17, 24)),
    st.sampled_from([(BATCH, 5), (BATCH, 4, 6), (BATCH, 2, 3, 5)]),
    st.integers(-3, 3) | st.none(),
    st.sampled_from([None, 1e-5, 1e-6, 0.25]),
    st.booleans(),
)
def test_a_layer_normalization_over_any_axis_computes_the_same_when_fused(
    opset: int, shape: tuple[int, ...], axis: int | None, epsilon: float | None, biased: bool
) -> None:
    rank = len(shape)
    if axis is not None and not -rank < axis < rank:
        return
    first = (-1 if axis is None else axis) % rank
    if first == 0:
        return
    tensors = {"scale": random_array(shape[first:]), "bias": random_array(shape[first:]) * np.float32(0.5)}
    attributes = {"axis": axis, "epsilon": epsilon}
    node = helper.make_node(
        "LayerNormalization",
        ["x", "scale", *(["bias"] if biased else [])],
        ["y"],
        **{name: value for name, value in attributes.items() if value is not None},
    )
    model = model_of([node], shape, tensors if biased else {"scale": tensors["scale"]}, opset)
    assert fused_and_compared(model, random_array(shape)) == (["layer_norm"] if first == rank - 1 else [])


def test_a_layer_normalization_whose_mean_is_read_is_left() -> None:
    shape = (BATCH, 4, 6)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["normal", "mean"]),
        helper.make_node("Add", ["normal", "mean"], ["y"]),
    ]
    tensors = {"scale": random_array((6,)), "bias": random_array((6,))}
    assert fused_and_compared(model_of(nodes, shape, tensors, 17), random_array(shape)) == []


def test_two_layer_norms_of_different_epsilons_are_two_nodes_of_one_function() -> None:
    tensors = {"scale": random_array((6,)), "bias": random_array((6,))}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["first"], epsilon=1e-5),
        helper.make_node("LayerNormalization", ["first", "scale", "bias"], ["y"], epsilon=0.5),
    ]
    model = model_of(nodes, (BATCH, 6), tensors, 17)
    assert fused_and_compared(model, random_array((BATCH, 6))) == ["layer_norm", "layer_norm"]


@pytest.mark.parametrize("opset", [11, 17, 18])
@pytest.mark.parametrize("read_again", [False, True])
@pytest.mark.parametrize(
    ("other", "gated", "kernels"),
    [((6,), True, ["add_layer_norm"]), ((6,), False, ["layer_norm"]), ((4, 1), False, ["layer_norm"])],
)
def test_a_sum_before_a_layer_norm(
    opset: int, read_again: bool, other: tuple[int, ...], gated: bool, kernels: list[str]
) -> None:
    """The sum belongs to the kernel where both operands have one shape, whether something else reads it or not."""
    shape = (BATCH, 4, 6)
    tensors = {"other": random_array(other), "scale": random_array((6,)), "bias": random_array((6,))}
    nodes = [helper.make_node("Sigmoid", ["other"], ["branch"])]
    if gated:
        nodes = [helper.make_node("Sigmoid", ["x"], ["gate"]), helper.make_node("Mul", ["gate", "other"], ["branch"])]
    nodes.append(helper.make_node("Add", ["x", "branch"], ["sum"]))
    normal = "normal" if read_again else "y"
    if opset < 17:
        norm = Norm(opset, shape)
        norm.model()
        for node in norm.nodes:
            node.input[:] = ["sum" if name == "x" else name for name in node.input]
        norm.nodes[-1].output[0] = normal
        nodes += norm.nodes
        tensors = {"other": tensors["other"], **norm.tensors}
    else:
        nodes.append(helper.make_node("LayerNormalization", ["sum", "scale", "bias"], [normal]))
    if read_again:
        nodes.append(helper.make_node("Add", ["normal", "sum"], ["y"]))
    assert fused_and_compared(model_of(nodes, shape, tensors, opset), random_array(shape)) == kernels


@pytest.mark.parametrize(
    ("opset", "dynamo"), [*((opset, False) for opset in range(11, 21)), *((opset, True) for opset in range(18, 24))]
)
def test_what_torchs_exporters_write(opset: int, dynamo: bool) -> None:
    torch = pytest.importorskip("torch")
    if dynamo:
        pytest.importorskip("onnxscript")

    class Attention(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before = torch.nn.LayerNorm(8, eps=1e-6)
            self.after = torch.nn.LayerNorm(8)

        def forward(self, x: Any) -> Any:
            x = self.before(x)
            mixed = torch.softmax(x @ x.transpose(-1, -2) * 0.3, -1) @ x
            return self.after(x + mixed)

    torch.manual_seed(0)
    module = Attention().eval()
    torch.nn.init.normal_(module.after.weight)
    example = torch.randn(BATCH, 5, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            if dynamo:
                exported = torch.onnx.export(module, (example,), opset_version=opset, dynamo=True, verbose=False)
                model = exported.model_proto
            else:
                file = io.BytesIO()
                named = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
                torch.onnx.export(module, (example,), file, opset_version=opset, dynamo=False, **named)
                model = onnx.load_from_string(file.getvalue())
        finally:
            logging.disable(logging.NOTSET)
    found = fused_and_compared(model, example.numpy())
    assert [name for name in found if name in (*KERNELS, "attention")] == ["layer_norm", "attention", "add_layer_norm"]


@pytest.mark.parametrize(("width", "taken"), [(2047, []), (2048, ["add_layer_norm"])])
def test_short_rows_are_left_to_tensorrts_compiler_where_no_kernel_is_named(width: int, taken: list[str]) -> None:
    tensors = {"scale": random_array((width,)), "bias": random_array((width,))}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["gate"]),
        helper.make_node("Add", ["x", "gate"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["y"]),
    ]
    model = model_of(nodes, (BATCH, width), tensors, 17)
    assert used(fuse(model).model) == taken
    assert used(fuse(model, "layer_norm").model) == ["layer_norm"]
    assert used(fuse(model, "add_layer_norm").model) == used(fuse(model, "all").model) == ["add_layer_norm"]


@pytest.mark.parametrize(("length", "taken"), [(1023, []), (1024, ["softmax"])])
def test_a_softmax_over_short_rows_is_taken_by_name_alone(length: int, taken: list[str]) -> None:
    model = model_of([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], (BATCH, length), {}, 17)
    assert used(fuse(model).model) == taken
    assert used(fuse(model, "softmax").model) == ["softmax"]
