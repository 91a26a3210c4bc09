"""Patches that are merged between the stages of a Swin: what the kernel replaces, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run

NAME = "merge_layer_norm"
CHANNELS, HEIGHT, WIDTH = 5, 6, 8
TO_THE_END = 2**63 - 1
ORDER = ((0, 0), (1, 0), (0, 1), (1, 1))
NORM = [helper.make_node("LayerNormalization", ["merged", "scale", "shift"], ["z"], axis=-1, epsilon=1e-5)]


def slices(
    order: Sequence[tuple[int, int]] = ORDER,
    axes: tuple[int, int] = (1, 2),
    step: int = 2,
    ends: tuple[int, int] = (TO_THE_END, TO_THE_END),
    together: bool = False,
    axis: int = -1,
    x: str = "x",
) -> list[onnx.NodeProto]:
    """Return slices of x, one axis after the other or both ``together``, and what joins them."""
    nodes = []

    def ints(name: str, *values: int) -> str:
        nodes.append(helper.make_node("Constant", [], [name], value_ints=values))
        return name

    def part(whole: str, y: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> None:
        given = {"starts": starts, "ends": ends, "axes": axes, "steps": [step] * len(axes)}
        names = [ints(f"{y}_{name}", *values) for name, values in given.items()]
        nodes.append(helper.make_node("Slice", [whole, *names], [y]))

    for index, start in enumerate(order):
        if together:
            part(x, f"part{index}", start, ends, axes)
        else:
            part(x, f"rows{index}", start[:1], ends[:1], axes[:1])
            part(f"rows{index}", f"part{index}", start[1:], ends[1:], axes[1:])
    joined = [f"part{index}" for index in range(len(order))]
    return [*nodes, helper.make_node("Concat", joined, ["merged"], axis=axis)]


def squares(height: int = HEIGHT, width: int = WIDTH, perm: Sequence[int] = (0, 1, 3, 4, 2, 5)) -> list[onnx.NodeProto]:
    """Return the same by reshapes and a transposition, as timm writes it."""
    sizes = {"divided": [-1, height // 2, 2, width // 2, 2, CHANNELS], "joined": [0, 0, 0, 4 * CHANNELS]}
    return [
        *(helper.make_node("Constant", [], [name], value_ints=values) for name, values in sizes.items()),
        helper.make_node("Reshape", ["x", "divided"], ["six"]),
        helper.make_node("Transpose", ["six"], ["turned"], perm=perm),
        helper.make_node("Reshape", ["turned", "joined"], ["merged"]),
    ]


def tokens() -> list[onnx.NodeProto]:
    """Return what folds rows and columns of what is merged, as transformers does."""
    nodes = slices()
    nodes[-1].output[0] = "image"
    sizes = helper.make_node("Constant", [], ["tokens"], value_ints=[0, -1, 4 * CHANNELS])
    return [*nodes, sizes, helper.make_node("Reshape", ["image", "tokens"], ["merged"])]


def written_out() -> list[onnx.NodeProto]:
    """Return the nodes of a layer norm before opset 17."""
    return [
        helper.make_node("ReduceMean", ["merged"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["merged", "mean"], ["distance"]),
        helper.make_node("Pow", ["distance", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "epsilon"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["deviation"]),
        helper.make_node("Div", ["distance", "deviation"], ["unit"]),
        helper.make_node("Mul", ["unit", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["z"]),
    ]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    norm: Sequence[onnx.NodeProto] = NORM,
    *,
    length: int = 4 * CHANNELS,
    height: int | str = HEIGHT,
    width: int = WIDTH,
    outputs: Sequence[str] = ("z",),
    opset: int = 17,
) -> onnx.ModelProto:
    random = np.random.default_rng(4)
    weights = {name: random.normal(size=length).astype(np.float32) for name in ("scale", "shift")}
    weights |= {"two": np.array(2.0, np.float32), "epsilon": np.array(1e-5, np.float32)}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", height, width, CHANNELS])
    graph = helper.make_graph(
        [*nodes, *norm],
        "g",
        [x],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def left(model: onnx.ModelProto, height: int = HEIGHT, width: int = WIDTH) -> list[str]:
    """Return the operators that are left beside the kernel, whose results are those of the plain model."""
    fused = fuse(model, [NAME]).model
    assert list(plugin_nodes(fused).values()) == [NAME]
    x = np.random.default_rng(3).normal(size=(3, height, width, CHANNELS)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    return [node.op_type for node in fused.graph.node if node.op_type not in (NAME, "Constant")]


@pytest.mark.parametrize(
    "nodes",
    [
        slices(),
        slices(together=True),
        slices(axes=(-3, -2), axis=3),
        slices(ends=(HEIGHT, WIDTH)),
        slices(axes=(2, 1), order=[pixel[::-1] for pixel in ORDER]),
        squares(),
    ],
    ids=["torchvision", "both axes", "from the end", "sizes", "columns first", "timm"],
)
@pytest.mark.parametrize(("norm", "opset"), [(NORM, 17), (written_out(), 16)], ids=["one node", "written out"])
def test_merged_patches_are_taken_with_their_norm(
    nodes: list[onnx.NodeProto], norm: list[onnx.NodeProto], opset: int
) -> None:
    assert not left(model_of(nodes, norm, opset=opset))


def test_tokens_are_a_view_of_the_merged_patches() -> None:
    assert left(model_of(tokens())) == ["Reshape"]


@pytest.mark.parametrize("nodes", [slices(), tokens(), squares()], ids=["torchvision", "transformers", "timm"])
def test_merged_patches_are_taken_in_16_bits(nodes: list[onnx.NodeProto]) -> None:
    fused = fuse(convert(model_of(nodes), "fp16"), [NAME]).model
    assert {node.op_type for node in fused.graph.node} <= {NAME, "Cast", "Reshape", "Constant"}


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [
        (slices(ORDER[::-1]), {}),
        (slices([(0, 0), (0, 1), (1, 0), (1, 1)]), {}),
        (slices([(0, 0), (1, 0), (0, 1), (0, 1)]), {}),
        (slices(ORDER[:2]), {"length": 2 * CHANNELS}),
        (slices([(0, 0), (1, 0), (0, 2), (1, 2)], step=4, ends=(4, 8)), {}),
        (slices(axes=(1, 3)), {"length": 8}),
        (slices(axis=2), {"length": CHANNELS}),
        (slices(ends=(HEIGHT - 2, WIDTH)), {}),
        (slices(ends=(6, 8)), {"height": 7}),
        (slices(ends=(6, 8)), {"width": 9}),
        (slices(), {"height": "h"}),
        (squares(perm=(0, 1, 3, 2, 4, 5)), {}),
        (squares(height=4, width=12), {}),
    ],
    ids=[
        *("reversed", "rows before columns", "a pixel twice", "two pixels", "step 4", "channels", "joined columns"),
        *("fewer rows", "odd height", "odd width", "open height", "order of squares", "other squares"),
    ],
)
def test_other_patches_are_no_place(nodes: list[onnx.NodeProto], sizes: dict[str, int]) -> None:
    with pytest.raises(LenetTrtError, match=f"{NAME}: the network has no place for it"):
        fuse(model_of(nodes, **sizes), [NAME])  # type: ignore[arg-type]


def test_a_norm_of_more_axes_is_no_place() -> None:
    model = model_of(slices(), [helper.make_node("LayerNormalization", ["merged", "whole", "whole"], ["z"], axis=2)])
    whole = np.ones((WIDTH // 2, 4 * CHANNELS), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(whole, "whole"))
    with pytest.raises(LenetTrtError, match=f"{NAME}: the network has no place for it"):
        fuse(model, [NAME])


@pytest.mark.parametrize("name", ["part1", "rows2", "merged"])
def test_patches_that_others_read_are_no_place(name: str) -> None:
    with pytest.raises(LenetTrtError, match=f"{NAME}: the network has no place for it"):
        fuse(model_of(slices(), outputs=("z", name)), [NAME])


def test_patches_behind_a_padding_are_taken_and_the_padding_is_left() -> None:
    nodes = slices(x="padded")
    sides = helper.make_node("Constant", [], ["sides"], value_ints=[0, 0, 0, 0, 0, 1, 1, 0])
    padding = [sides, helper.make_node("Pad", ["x", "sides"], ["padded"])]
    assert left(model_of([*padding, *nodes], height=5, width=7), height=5, width=7) == ["Pad"]


@pytest.mark.parametrize("length", [2048, 2044])
def test_long_rows_are_claimed_as_those_of_a_layer_norm_are(length: int) -> None:
    model = model_of(slices(), length=length)
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_value = length // 4
    model.graph.ClearField("value_info")
    assert list(plugin_nodes(fuse(model, architectures=[]).model).values()) == [NAME] * (length >= 2048)


def reduced(kind: type[np.generic]) -> onnx.ModelProto:
    """Return a sum, merged patches, the dense layer that reduces them, and a norm and a dense layer behind it."""
    random = np.random.default_rng(5)
    wide, narrow = 256, 128
    weights = {
        **dict.fromkeys(("scale", "shift"), (wide,)),
        **dict.fromkeys(("next_scale", "next_shift"), (narrow,)),
        "reduce": (wide, narrow),
        "next": (narrow, 3 * narrow),
    }
    nodes = [
        helper.make_node("Add", ["x", "x"], ["sum"]),
        *slices(x="sum"),
        *NORM,
        helper.make_node("MatMul", ["z", "reduce"], ["small"]),
        helper.make_node("LayerNormalization", ["small", "next_scale", "next_shift"], ["normal"], axis=-1),
        helper.make_node("MatMul", ["normal", "next"], ["y"]),
    ]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        nodes,
        "reduced",
        [helper.make_tensor_value_info("x", element, [8, 28, 28, wide // 4])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(random.normal(size=shape).astype(kind), name) for name, shape in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


@pytest.mark.parametrize(("kind", "dense"), [(np.float32, "linear"), (np.float16, "linear_half")])
def test_auto_takes_them_with_the_layers_behind(kind: type[np.generic], dense: str) -> None:
    taken = plugin_nodes(fuse(reduced(kind), architectures=[90]).model)
    assert sorted(taken.values()) == sorted([NAME, dense, "layer_norm", dense])


def test_auto_leaves_them_in_16_bits_where_no_group_was_measured() -> None:
    assert NAME not in plugin_nodes(fuse(reduced(np.float16), architectures=[80]).model).values()
