"""3x3 convolutions in 16 bits: where the channels-last kernels are taken, and where TensorRT's own layers stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module, side_by_side

CONV, ADD, CONCAT = "conv3x3_half", "conv3x3_half_add", "conv3x3_half_concat"
SHUFFLE = "conv3x3_half_shuffle"
CHANNELS, FILTERS = 8, 16


def model_of(*nodes: onnx.NodeProto, side: int = 6, filters: int = FILTERS, group: int = 1) -> onnx.ModelProto:
    """Return a model of these nodes, from images x and y to z.

    w and b are a convolution's weights; w2 is of one of images with the filters' channels twice. Where nodes read
    squares_2 or squares_3, and pixels_2 or pixels_3, these are what a pixel shuffle by reshapes has as targets.
    """
    random = np.random.default_rng(2)
    shapes = {"w": (filters, CHANNELS // group, 3, 3), "b": (filters,), "w2": (filters, 2 * filters, 3, 3)}
    tensors = [
        numpy_helper.from_array((random.normal(size=shape) / 8).astype(np.float16), name)
        for name, shape in shapes.items()
    ]
    for block in (2, 3):
        planes = filters // block**2
        targets = {"squares": [0, planes, block, block, side, side], "pixels": [0, planes, block * side, block * side]}
        tensors += [numpy_helper.from_array(np.array(sizes), f"{name}_{block}") for name, sizes in targets.items()]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, CHANNELS, side, side]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, filters, side, side]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT16, list("nkhw")),
    ]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(output: str, **changed: Any) -> onnx.NodeProto:
    """Return a convolution of x that the kernels take, but for what is changed."""
    return helper.make_node("Conv", ["x", "w", "b"], [output], **{"kernel_shape": [3, 3], "pads": [1] * 4, **changed})


def conv_relu(output: str, x: str = "x", w: str = "w") -> list[onnx.NodeProto]:
    """Return a convolution and its ReLU."""
    conv = helper.make_node("Conv", [x, w, "b"], [f"{output}c"], kernel_shape=[3, 3], pads=[1] * 4)
    return [conv, helper.make_node("Relu", [f"{output}c"], [output])]


def concat(output: str, *inputs: str, axis: int = 1) -> onnx.NodeProto:
    """Return a concatenation, of channels where nothing else is said."""
    return helper.make_node("Concat", inputs, [output], axis=axis)


def taken(model: onnx.ModelProto, *names: str) -> Counter[str]:
    """Return the plugins that are taken, by name or by themselves; the results are those of the plain model."""
    fused = fuse(model, names or "auto", architectures=[90]).model
    rng = np.random.default_rng(3)
    inputs = [
        rng.normal(size=[d.dim_value for d in port.type.tensor_type.shape.dim]).astype(np.float16)
        for port in model.graph.input
    ]
    np.testing.assert_allclose(run(fused, *inputs)[0], run(model, *inputs)[0], rtol=0, atol=2e-2)
    return Counter(plugin_nodes(fused).values())


@pytest.mark.parametrize("activation", [None, "Relu"])
@pytest.mark.parametrize("conv_first", [True, False])
def test_a_convolution_is_one_kernel_with_what_follows(activation: str | None, conv_first: bool) -> None:
    added = ["c", "y"] if conv_first else ["y", "c"]
    last = "a" if activation else "z"
    after = [helper.make_node(activation, ["a"], ["z"])] if activation else []
    assert taken(model_of(conv("c"), helper.make_node("Add", added, [last]), *after), ADD) == {ADD: 1}
    assert taken(model_of(conv(last), *after), CONV) == {CONV: 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"pads": [0] * 4},
        {"pads": [2] * 4},
        {"pads": [1, 1, 0, 1]},
        {"strides": [2, 2]},
        {"strides": [1, 2]},
        {"dilations": [2, 2]},
        {"group": 2},
    ],
    ids=str,
)
def test_another_convolution_is_no_place(changed: dict[str, Any]) -> None:
    with pytest.raises(LenetTrtError, match=f"{CONV}: the network has no place for it"):
        taken(model_of(conv("z", **changed), group=int(changed.get("group", 1))), CONV)


def test_filters_that_8_does_not_divide_are_taken_where_nothing_is_added() -> None:
    assert taken(model_of(conv("z"), filters=12), CONV) == {CONV: 1}
    with pytest.raises(LenetTrtError, match=f"{ADD}.*k is a multiple of 8"):
        taken(model_of(conv("c"), helper.make_node("Add", ["c", "y"], ["z"]), filters=12), ADD)


def test_by_themselves_they_are_taken_on_very_many_pixels() -> None:
    assert taken(model_of(conv("z"), side=64, filters=12)) == {}
    assert taken(model_of(conv("z"), side=364, filters=12)) == {CONV: 1}


def test_by_themselves_they_are_taken_for_large_images() -> None:
    relu = helper.make_node("Relu", ["c"], ["z"])
    assert taken(model_of(conv("c"), relu, side=64)) == {CONV: 1}
    assert taken(model_of(conv("c"), relu, side=32)) == {}


@pytest.mark.parametrize(("filters", "others", "counts"), [(64, 3, {CONCAT: 3}), (64, 2, {}), (56, 3, {})])
def test_of_few_pixels_they_are_taken_in_groups(filters: int, others: int, counts: dict[str, int]) -> None:
    nodes, last = conv_relu("r0"), "r0"
    for i in range(others):
        after = "z" if i == others - 1 else f"r{i + 1}"
        nodes += [concat(f"j{i}", last, "y"), *conv_relu(after, f"j{i}", "w2")]
        last = after
    assert taken(model_of(*nodes, filters=filters)) == counts


def test_before_a_concatenation_tensorrt_keeps_the_layer_whole() -> None:
    """TensorRT writes into the concatenation; and it computes a ReLU with the convolution, so neither part is taken."""
    nodes = [*conv_relu("r"), concat("z", "r", "y")]
    assert taken(model_of(*nodes, side=64)) == {}
    assert taken(model_of(*nodes, side=64), CONV) == {CONV: 1}


def test_what_is_left_before_a_concatenation_is_told_once() -> None:
    refusals = fuse(model_of(*conv_relu("r"), concat("z", "r", "y"), side=64), "auto", architectures=[90]).refusals
    assert [refusal.kernel for refusal in refusals if "with one that reads r" in refusal.reason] == [CONV]


@pytest.mark.parametrize("operands", [("y", "r"), ("r", "y")])
def test_a_concatenation_is_one_kernel_with_its_convolution(operands: tuple[str, str]) -> None:
    nodes = [*conv_relu("r"), concat("j", *operands), *conv_relu("z", "j", "w2")]
    assert taken(model_of(*nodes), CONCAT) == {CONCAT: 1}


def test_where_the_concatenation_is_replaced_too_nothing_is_copied() -> None:
    nodes = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("z", "j", "w2")]
    assert taken(model_of(*nodes, side=64)) == {CONV: 1, CONCAT: 1}


def test_of_two_concatenations_both_must_be_replaced() -> None:
    """The second one stays: what the first one's convolution gives would be copied, so both layers stay."""
    nodes = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("q", "j", "w2"), concat("z", "q", "y")]
    assert taken(model_of(*nodes, side=64)) == {}
    others = [*conv_relu("r"), concat("j", "y", "r"), *conv_relu("q", "j", "w2"), concat("s", "q", "r")]
    assert taken(model_of(*others, *conv_relu("z", "s", "w2"), side=64)) == {CONV: 1, CONCAT: 2}


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([concat("j", "x", "x", axis=2), *conv_relu("z", "j", "w")], id="another axis"),
        pytest.param([concat("j", "x", "x", "x", "x"), *conv_relu("z", "j", "w2")], id="four tensors"),
        pytest.param(
            [concat("j", "y", "y"), *conv_relu("q", "j", "w2"), concat("z", "q", "j")], id="another reader of it"
        ),
    ],
)
def test_another_concatenation_is_no_place(nodes: list[onnx.NodeProto]) -> None:
    with pytest.raises(LenetTrtError, match=f"{CONCAT}: the network has no place for it"):
        taken(model_of(*nodes), CONCAT)


def shuffle(output: str, x: str = "c", **changed: Any) -> onnx.NodeProto:
    """Return a pixel shuffle that the kernel takes, but for what is changed."""
    return helper.make_node("DepthToSpace", [x], [output], **{"blocksize": 2, "mode": "CRD", **changed})


def shuffle_by_reshapes(
    output: str, x: str = "c", block: int = 2, perm: tuple[int, ...] = (0, 1, 4, 2, 5, 3)
) -> list[onnx.NodeProto]:
    """Return a pixel shuffle as ``view``, ``permute`` and ``reshape`` are exported."""
    return [
        helper.make_node("Reshape", [x, f"squares_{block}"], [f"{output}s"]),
        helper.make_node("Transpose", [f"{output}s"], [f"{output}t"], perm=perm),
        helper.make_node("Reshape", [f"{output}t", f"pixels_{block}"], [output]),
    ]


@pytest.mark.parametrize("filters", [4, 12, 32])
@pytest.mark.parametrize("activation", [None, "Relu", "Gelu"])
@pytest.mark.parametrize("by_reshapes", [False, True])
def test_a_pixel_shuffle_is_one_kernel_with_its_convolution(
    by_reshapes: bool, activation: str | None, filters: int
) -> None:
    between = gelu("c", "a") if activation == "Gelu" else [helper.make_node("Relu", ["c"], ["a"])] * bool(activation)
    last = "a" if activation else "c"
    after = shuffle_by_reshapes("z", last) if by_reshapes else [shuffle("z", last)]
    assert taken(model_of(conv("c"), *between, *after, filters=filters), SHUFFLE) == {SHUFFLE: 1}


def gelu(x: str, y: str) -> list[onnx.NodeProto]:
    """Return GELU as opset 17 has it."""
    constants = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    tensors = {name: numpy_helper.from_array(np.array(value, np.float16)) for name, value in constants.items()}
    return [
        *(helper.make_node("Constant", [], [f"{y}{name}"], value=tensor) for name, tensor in tensors.items()),
        helper.make_node("Div", [x, f"{y}root"], [f"{y}d"]),
        helper.make_node("Erf", [f"{y}d"], [f"{y}e"]),
        helper.make_node("Add", [f"{y}e", f"{y}one"], [f"{y}a"]),
        helper.make_node("Mul", [x, f"{y}a"], [f"{y}m"]),
        helper.make_node("Mul", [f"{y}m", f"{y}half"], [y]),
    ]


def test_both_forms_of_a_pixel_shuffle_stand_in_one_file() -> None:
    nodes = [conv("c"), shuffle("p"), conv("d"), *shuffle_by_reshapes("q", "d"), helper.make_node("Add", "pq", "z")]
    assert taken(model_of(*nodes), SHUFFLE) == {SHUFFLE: 2}


@pytest.mark.parametrize(
    ("nodes", "filters"),
    [
        pytest.param([shuffle("z", mode="DCR")], 16, id="another order"),
        pytest.param([shuffle("z", blocksize=3)], 18, id="blocks of 3"),
        pytest.param([shuffle("z", blocksize=4)], 16, id="blocks of 4"),
        pytest.param(shuffle_by_reshapes("z", block=3), 18, id="blocks of 3 by reshapes"),
        pytest.param(shuffle_by_reshapes("z", perm=(0, 1, 4, 3, 5, 2)), 16, id="squares on their side"),
        pytest.param(shuffle_by_reshapes("z", perm=(0, 1, 5, 2, 4, 3)), 16, id="images on their side"),
        pytest.param([shuffle("z")], 36, id="36 filters"),
        pytest.param(
            [shuffle("p"), helper.make_node("Relu", ["c"], ["r"]), shuffle("q", "r")], 16, id="another reader"
        ),
        pytest.param([*shuffle_by_reshapes("p"), shuffle("q")], 16, id="another reader by reshapes"),
    ],
)
def test_another_pixel_shuffle_is_no_place(nodes: list[onnx.NodeProto], filters: int) -> None:
    join = [] if nodes[-1].output[0] == "z" else [helper.make_node("Add", ["p", "q"], ["z"])]
    model = model_of(conv("c"), *nodes, *join, filters=filters)
    with pytest.raises(LenetTrtError, match=f"{SHUFFLE}: the network has no place for it"):
        taken(model, SHUFFLE)
    assert taken(model, CONV) == {CONV: 1}


def test_filters_of_a_pixel_shuffle_are_whole_squares() -> None:
    kernel = registry.kernel(SHUFFLE)
    with pytest.raises(LenetTrtError, match="k is a multiple of 4"):
        kernel.bind_axes({"n": 1, "c": 8, "h": 6, "w": 6, "k": 6}, kernel.types[0], {"activation": "none"})


def test_on_hopper_a_pixel_shuffle_goes_line_by_line_however_few_pixels_there_are() -> None:
    kernel = registry.kernel(SHUFFLE)
    for axes in ({"n": 1, "c": 8, "h": 6, "w": 6, "k": 4}, {"n": 32, "c": 128, "h": 128, "w": 100, "k": 32}):
        bound = kernel.bind_axes(axes, kernel.types[0], {"activation": "none"})
        assert bound.variant(90, {"multiprocessors": 132}).name == "lines_wgmma"


@pytest.mark.parametrize(
    ("side", "filters", "kernels"),
    [
        (364, 12, {SHUFFLE: 1}),
        (364, 36, {CONV: 1}),
        (390, 12, {CONV: 1}),  # the last of a row's seven lines has 6 pixels of 64
        (64, 16, {CONV: 1}),
        (64, 12, {}),
    ],
)
def test_by_itself_a_pixel_shuffle_is_taken_on_very_many_pixels(
    side: int, filters: int, kernels: dict[str, int]
) -> None:
    assert taken(model_of(conv("c"), shuffle("z"), side=side, filters=filters)) == kernels


@pytest.mark.parametrize("opset", [11, 17, 18, 23])
def test_pixel_shuffles_of_torchs_exporters_are_found(opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch exports the layers")

    class Permuted(torch.nn.Module):  # type: ignore[name-defined, misc]
        """A pixel shuffle as people write it."""

        def forward(self, x: Any) -> Any:
            n, channels, height, width = x.shape
            squares = x.view(n, channels // 4, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
            return squares.reshape(n, channels // 4, 2 * height, 2 * width)

    def layers(*after: Any) -> Any:
        return torch.nn.Sequential(torch.nn.Conv2d(CHANNELS, 12, 3, 1, 1), *after)

    pixels = torch.nn.PixelShuffle(2)
    network = side_by_side([layers(pixels), layers(torch.nn.ReLU(), pixels), layers(Permuted())])
    model = convert(exported_module(network, torch.zeros(2, CHANNELS, 6, 6), opset), "fp16")
    fused = fuse(model, [SHUFFLE]).model
    assert Counter(plugin_nodes(fused).values()) == {SHUFFLE: 3}
    images = np.random.default_rng(3).normal(size=(3, CHANNELS, 6, 6)).astype(np.float32)
    for seen, wanted in zip(run(fused, images), run(model, images), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-2)
