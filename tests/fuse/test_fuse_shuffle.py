"""Channel shuffles of two joined tensors: what is found in exported networks, and graphs that must be left."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.runtimes.ort import runner
from torch_export import exported_module

CHANNELS, SIDE = 6, 4


def used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def operators_alike(model: onnx.ModelProto, *batches: int) -> list[str]:
    """Fuse the shuffles, compare the models, and return the operators of the fused one but those of constants."""
    fused = fuse(model, "all").model
    names = [value.name for value in model.graph.input]
    for batch in batches:
        random = np.random.default_rng(batch)
        inputs = {name: random.normal(size=(batch, CHANNELS, SIDE, SIDE)).astype(np.float32) for name in names}
        for seen, wanted in zip(runner(fused)(inputs), runner(model)(inputs), strict=True):
            np.testing.assert_array_equal(seen, wanted)
    return [node.op_type for node in fused.graph.node if node.op_type != "Constant"]


def shuffled(
    batch: int | str = "n",
    axis: int = 1,
    groups: int = 2,
    perm: tuple[int, ...] = (0, 2, 1, 3, 4),
    halves: tuple[tuple[int, int], ...] = (),
    also: str = "",
) -> onnx.ModelProto:
    """Make a shuffle with constant sizes; ``halves``: slices of its channels; ``also``: one more output."""
    channels = 2 * CHANNELS
    sizes = {
        "divided": [0, groups, channels // groups, SIDE, SIDE],
        "joined": [0, channels, SIDE, SIDE],
        "axes": [1],
        **{f"bound{index}": [index] for index in range(2 * channels)},
    }
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["both"], axis=axis),
        helper.make_node("Reshape", ["both", "divided"], ["groups"]),
        helper.make_node("Transpose", ["groups"], ["turned"], perm=list(perm)),
        helper.make_node("Reshape", ["turned", "joined"], ["y"]),
    ]
    outputs = ["y"]
    for index, (start, end) in enumerate(halves):
        outputs = [*(outputs if index else []), f"half{index}"]
        nodes.append(helper.make_node("Slice", ["y", f"bound{start}", f"bound{end}", "axes"], [f"half{index}"]))
    floats = [batch, CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "shuffle",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, floats) for name in "ab"],
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * (5 if name == "groups" else 4))
            for name in [*outputs, *([also] if also else [])]
        ],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in sizes.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WHOLE, SPLIT = "concat_shuffle", "concat_shuffle_split"


@pytest.mark.parametrize("batch", ["n", 3])
def test_channels_in_turns_are_one_kernel(batch: int | str) -> None:
    assert operators_alike(shuffled(batch), 3) == [WHOLE]
    assert operators_alike(shuffled(batch, axis=-3), 3) == [WHOLE]


@pytest.mark.parametrize("halves", [((0, 6), (6, 12)), ((6, 12), (0, 6)), ((0, 6), (6, 20))], ids=str)
def test_both_halves_are_outputs_of_one_kernel(halves: tuple[tuple[int, int], ...]) -> None:
    assert operators_alike(shuffled(halves=halves), 1, 3) == [SPLIT]


@pytest.mark.parametrize(
    ("changed", "kernels"),
    [
        ({"groups": 3}, []),
        ({"groups": 4}, []),
        ({"perm": (0, 1, 2, 3, 4)}, []),
        ({"perm": (0, 2, 1, 4, 3)}, []),
        ({"also": "both"}, []),
        ({"also": "groups"}, []),
        ({"halves": ((0, 6),)}, [WHOLE]),
        ({"halves": ((0, 5), (5, 12))}, [WHOLE]),
        ({"halves": ((0, 6), (0, 6))}, [WHOLE]),
        ({"halves": ((0, 6), (6, 12), (6, 12))}, [WHOLE]),
        ({"halves": ((0, 6), (6, 12)), "also": "y"}, [WHOLE]),
    ],
    ids=str,
)
def test_what_is_no_shuffle_of_two_tensors_is_left(changed: dict[str, Any], kernels: list[str]) -> None:
    model = shuffled(**changed)
    assert [name for name in operators_alike(model, 2) if name in (WHOLE, SPLIT)] == kernels


def test_a_third_tensor_is_left() -> None:
    model = shuffled()
    model.graph.node[0].input.append("a")
    assert used(fuse(model, "all").model) == []


@pytest.mark.parametrize("opset", [11, 17, 18, 23])
@pytest.mark.parametrize("fixed", [False, True])
def test_blocks_of_torchs_exporters_are_found(opset: int, fixed: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch exports the blocks")

    class Blocks(torch.nn.Module):  # type: ignore[name-defined, misc]
        """Two blocks as torchvision's ShuffleNetV2 has them."""

        def shuffle(self, x: Any) -> Any:
            n, channels, height, width = x.size()
            return (
                x.view(n, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(n, channels, height, width)
            )

        def forward(self, x: Any) -> Any:
            y = self.shuffle(torch.cat((x.relu(), x.tanh()), 1))
            first, second = y.chunk(2, dim=1)
            return self.shuffle(torch.cat((first, second.sigmoid()), 1))

    model = exported_module(Blocks().eval(), torch.zeros(2, CHANNELS, SIDE, SIDE), opset)
    if fixed:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 3
        del model.graph.value_info[:]
    assert operators_alike(model, 3) == ["Relu", "Tanh", SPLIT, "Sigmoid", WHOLE]
