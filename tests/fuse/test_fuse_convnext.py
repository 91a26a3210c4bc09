"""Blocks of a ConvNeXt in 16 bits: kernels between which channels are last, and no transposition is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

DEPTHWISE, DENSE, NORM = "depthwise_layer_norm", "linear_half_add", "channel_layer_norm"
CHANNELS, HIDDEN, SIDE = 40, 160, 6
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def depthwise(**changed: Any) -> list[onnx.NodeProto]:
    """Return the beginning of a block, of x, but for what is changed in its convolution."""
    attributes = {"kernel_shape": [7, 7], "pads": [3] * 4, "group": CHANNELS, **changed}
    return [
        node("Conv", "x taps per_channel", "maps", **attributes),
        node("Transpose", "maps", "pixels", perm=LAST),
        node("LayerNormalization", "pixels scale shift", "normal", axis=-1, epsilon=1e-6),
    ]


def dense(
    y: str, *, x: str = "normal", scale: str = "factor", perm: list[int] | None = None, x_first: bool = False
) -> list[onnx.NodeProto]:
    """Return its end, without the hidden layer."""
    nodes = [
        node("MatMul", f"{x} w", "product"),
        node("Add", "product per_channel", "dense"),
        node("Transpose", "dense", "first", perm=perm or FIRST),
    ]
    if not scale:
        return [*nodes, node("Add", "x first" if x_first else "first x", y)]
    return [*nodes, node("Mul", f"{scale} first", "scaled"), node("Add", "x scaled" if x_first else "scaled x", y)]


def model_of(*nodes: onnx.NodeProto, output: list[int]) -> onnx.ModelProto:
    random = np.random.default_rng(4)
    shapes: dict[str, tuple[int, ...]] = {
        "taps": (CHANNELS, 1, 7, 7),
        "dense_taps": (CHANNELS, CHANNELS, 7, 7),
        "w": (CHANNELS, CHANNELS),
        "factor": (CHANNELS, 1, 1),
        "summand": (1, CHANNELS, 1, 1),
        "of_columns": (SIDE,),
        **dict.fromkeys(("per_channel", "scale", "shift"), (CHANNELS,)),
    }
    tensors = [
        numpy_helper.from_array((random.normal(size=shape) / 4).astype(np.float16), name)
        for name, shape in shapes.items()
    ]
    x, z = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
        for name, shape in (("x", [2, CHANNELS, SIDE, SIDE]), ("z", output))
    )
    numbers = (("two", 2.0), ("epsilon", 1e-5))
    tensors += [numpy_helper.from_array(np.array(value, np.float16), name) for name, value in numbers]
    graph = helper.make_graph(nodes, "g", [x], [z], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MAPS, PIXELS = [2, CHANNELS, SIDE, SIDE], [2, SIDE, SIDE, CHANNELS]


def taken(model: onnx.ModelProto, *names: str) -> Counter[str]:
    """Return the plugins that are taken by name; the results are those of the plain model."""
    fused = fuse(model, names, architectures=[90]).model
    x = np.random.default_rng(3).normal(size=MAPS).astype(np.float16)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=3e-2)
    return Counter(plugin_nodes(fused).values())


def test_a_block_is_two_kernels_here_and_no_transposition_is_left() -> None:
    model = model_of(*depthwise(), *dense("z"), output=MAPS)
    assert taken(model, DEPTHWISE, DENSE) == {DEPTHWISE: 1, DENSE: 1}
    fused = fuse(model, (DEPTHWISE, DENSE), architectures=[90]).model
    assert {each.op_type for each in fused.graph.node} == {DEPTHWISE, DENSE}


@pytest.mark.parametrize("x_first", [False, True])
@pytest.mark.parametrize("scale", ["factor", ""])
def test_the_sum_is_taken_in_either_order(scale: str, x_first: bool) -> None:
    model = model_of(*depthwise(), *dense("z", scale=scale, x_first=x_first), output=MAPS)
    assert taken(model, DENSE) == {DENSE: 1}


def test_a_layer_scale_in_front_of_the_transposition_is_taken_too() -> None:
    end = dense("z", scale="", x_first=True)
    end[2].input[0] = "scaled"
    end.insert(2, node("Mul", "per_channel dense", "scaled"))
    assert taken(model_of(*depthwise(), *end, output=MAPS), DENSE) == {DENSE: 1}


def test_the_dense_layer_is_taken_alone_with_the_layer_scale_behind_it() -> None:
    assert taken(model_of(*depthwise(), *dense("z"), output=MAPS), "linear_half") == {"linear_half": 1}


@pytest.mark.parametrize("end", [dense("z", scale="of_columns"), dense("z", perm=[0, 3, 2, 1])], ids=["factor", "perm"])
def test_another_end_is_no_place(end: list[onnx.NodeProto]) -> None:
    with pytest.raises(LenetTrtError, match=f"{DENSE}: the network has no place for it"):
        taken(model_of(*depthwise(), *end, output=MAPS), DENSE)


@pytest.mark.parametrize(
    "changed",
    [{"pads": [2, 3, 4, 3]}, {"pads": [6] * 4, "dilations": [2, 2]}, {"strides": [2, 2]}],
    ids=str,
)
def test_another_convolution_is_no_place(changed: dict[str, Any]) -> None:
    side = SIDE // 2 if "strides" in changed else SIDE
    end = node("Identity", "normal", "z")
    with pytest.raises(LenetTrtError, match=f"{DEPTHWISE}: the network has no place for it"):
        taken(model_of(*depthwise(**changed), end, output=[2, side, side, CHANNELS]), DEPTHWISE)


def test_a_convolution_over_all_channels_is_no_place() -> None:
    nodes = depthwise(group=1)
    nodes[0].input[1] = "dense_taps"
    with pytest.raises(LenetTrtError, match=f"{DEPTHWISE}: the network has no place for it"):
        taken(model_of(*nodes, node("Identity", "normal", "z"), output=PIXELS), DEPTHWISE)


def test_a_norm_of_channels_takes_both_transpositions() -> None:
    nodes = [
        node("Transpose", "x", "pixels", perm=LAST),
        node("LayerNormalization", "pixels scale shift", "normal", axis=-1, epsilon=1e-6),
    ]
    model = model_of(*nodes, node("Transpose", "normal", "z", perm=FIRST), output=MAPS)
    assert taken(model, NORM) == {NORM: 1}
    fused = fuse(model, (NORM,), architectures=[90]).model
    assert [each.op_type for each in fused.graph.node] == [NORM]
    with pytest.raises(LenetTrtError, match=f"{NORM}: the network has no place for it"):
        taken(model_of(*nodes, node("Identity", "normal", "z"), output=PIXELS), NORM)


def norm_of_nodes() -> list[onnx.NodeProto]:
    """Return the norm of pixels as it was written before opset 17."""
    return [
        node("ReduceMean", "pixels", "mean", axes=[-1]),
        node("Sub", "pixels mean", "distance"),
        node("Pow", "distance two", "square"),
        node("ReduceMean", "square", "variance", axes=[-1]),
        node("Add", "variance epsilon", "above_zero"),
        node("Sqrt", "above_zero", "deviation"),
        node("Div", "distance deviation", "quotient"),
        node("Mul", "quotient scale", "product_of_norm"),
        node("Add", "product_of_norm shift", "normal"),
    ]


@pytest.mark.parametrize("opset", [12, 14])
def test_norms_as_they_were_written_before_opset_17(opset: int) -> None:
    begin = [*depthwise()[:2], *norm_of_nodes()]
    of_maps = [node("Transpose", "x", "pixels", perm=LAST), *norm_of_nodes()]
    block = model_of(*begin, *dense("z"), output=MAPS)
    norm = model_of(*of_maps, node("Transpose", "normal", "z", perm=FIRST), output=MAPS)
    for model in (block, norm):
        model.opset_import[0].version = opset
        onnx.checker.check_model(model, full_check=True)
    assert taken(block, DEPTHWISE, DENSE) == {DEPTHWISE: 1, DENSE: 1}
    assert taken(norm, NORM) == {NORM: 1}


def written_out(*, axis: int = 1, square: str = "Pow", factor: str = "factor") -> list[onnx.NodeProto]:
    """Return the norm of transformers' ConvNeXt, as torch's exporters write it."""
    return [
        node("ReduceMean", "x", "mean", axes=[axis]),
        node("Sub", "x mean", "distance"),
        node("Sub", "x mean", "again"),
        node(square, "again two" if square == "Pow" else "again again", "squares"),
        node("ReduceMean", "squares", "variance", axes=[axis]),
        node("Add", "variance epsilon", "above_zero"),
        node("Sqrt", "above_zero", "deviation"),
        node("Div", "distance deviation", "unit"),
        node("Mul", f"{factor} unit", "scaled"),
        node("Add", "scaled summand", "z"),
    ]


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_a_norm_of_channels_that_is_written_out_is_taken(square: str) -> None:
    model = model_of(*written_out(square=square), output=MAPS)
    assert taken(model, NORM) == {NORM: 1}
    fused = fuse(model, (NORM,), architectures=[90]).model
    assert [each.op_type for each in fused.graph.node] == [NORM]


@pytest.mark.parametrize(
    "changed", [{"axis": 2}, {"square": "Add"}, {"factor": "of_columns"}], ids=["rows", "no square", "columns"]
)
def test_another_norm_that_is_written_out_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{NORM}: the network has no place for it"):
        taken(model_of(*written_out(**changed), output=MAPS), NORM)


def test_a_written_out_norm_whose_mean_others_read_is_no_place() -> None:
    model = model_of(*written_out(), output=MAPS)
    model.graph.output.append(helper.make_tensor_value_info("mean", TensorProto.FLOAT16, [2, 1, SIDE, SIDE]))
    with pytest.raises(LenetTrtError, match=f"{NORM}: the network has no place for it"):
        taken(model, NORM)


def test_a_factor_and_a_summand_of_one_axis_are_no_norm() -> None:
    nodes = [node("Mul", "x two", "scaled"), node("Add", "scaled epsilon", "z")]
    model = model_of(*nodes, output=[CHANNELS])
    del model.graph.input[0].type.tensor_type.shape.dim[1:]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = CHANNELS
    assert not fuse(model, "all", architectures=[90]).replacements
