"""Nodes that read only the sizes of layers keep no kernel from these: sizes become constants, or those of the input."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from lenet_trt.fuse.constant_sizes import with_known_sizes
from lenet_trt.fuse.normal_form import plain_form
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from plain_runtime import run

BATCH = 3
# A Swin of transformers makes tokens of its patches so, and of these an image, whose sizes it reads from the maps.
TOKENS = """
  maps = Conv<kernel_shape = [4, 4], strides = [4, 4]>(x, filters, bias)
  sizes = Shape(maps)
  first = Slice(sizes, nought, two, nought)
  target = Concat<axis = 0>(first, minus)
  rows = Reshape(maps, target)
  tokens = Transpose<perm = [0, 2, 1]>(rows)
  active = Relu(tokens)
  of_image = Gather(sizes, channels_last)
  y = Reshape(active, of_image)
"""
# Windows of an image are a batch of their own, and each is flattened.
WINDOWS = """
  cut = Reshape(x, squares)
  windows = Transpose<perm = [0, 2, 4, 1, 3, 5]>(cut)
  alone = Reshape(windows, of_windows)
  active = Relu(alone)
  sizes = Shape(active)
  batch = Slice(sizes, nought, one, nought)
  target = Concat<axis = 0>(batch, minus)
  rows = Reshape(active, target)
  y = Gemm<transB = 1>(rows, filters, bias)
"""
NUMBERS = {"nought": [0], "one": [1], "two": [2], "minus": [-1], "squares": [-1, 3, 2, 4, 2, 4]}
NUMBERS |= {"of_windows": [-1, 3, 4, 4], "channels_last": [0, 2, 3, 1]}


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def model_of(body: str, shape: str, result: str, opset: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g (float[{shape}] x) => (float[{result}] y) {{ {body} }}""")
    read = {name for node in model.graph.node for name in node.input}
    constants = {**{name: np.array(value) for name, value in NUMBERS.items()}, **weights}
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items() if name in read]
    model.graph.initializer.extend(tensors)
    onnx.checker.check_model(model, full_check=True)
    return model


def alike(model: onnx.ModelProto, kernel: str) -> list[str]:
    """Fuse a model, compare it with the plain one, and return what it reads the sizes of."""
    fused = fuse(model, [kernel]).model
    onnx.checker.check_model(fused, full_check=True)
    assert list(plugin_nodes(fused).values()) == [kernel]
    (given,) = model.graph.input
    x = values(*(dim.dim_value or BATCH for dim in given.type.tensor_type.shape.dim))
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)
    return [node.input[0] for node in fused.graph.node if node.op_type == "Shape"]


@pytest.mark.parametrize("batch", [2, "n"])
def test_patches_whose_sizes_are_read(batch: int | str) -> None:
    weights = {"filters": values(32, 3, 4, 4), "bias": values(32)}
    model = model_of(TOKENS, f"{batch}, 3, 24, 16", f"{batch}, 6, 4, 32", **weights)
    assert alike(model, "patch_embedding") == ["x"] * (batch == "n")


@pytest.mark.parametrize("batch", [2, "n"])
def test_rows_of_windows_are_flattened_whatever_the_batch(batch: int | str) -> None:
    windows = batch * 4 if isinstance(batch, int) else "m"
    model = model_of(WINDOWS, f"{batch}, 3, 8, 8", f"{windows}, 32", filters=values(32, 48), bias=values(32))
    sized = with_known_sizes(model, plain_form(model))
    assert "Flatten" in [node.op_type for node in plain_form(sized).nodes]
    assert alike(model, "linear") == ["x"] * (batch == "n")


def test_a_shape_of_which_known_sizes_alone_are_read_is_gone() -> None:
    body = "active = Relu(x) sizes = Shape(active) width = Gather(sizes, one) both = Concat<axis = 0>(minus, width)"
    model = model_of(f"{body} y = Reshape(active, both)", "n, 48", "n, 48")
    sized = with_known_sizes(model, plain_form(model))
    assert [node.op_type for node in sized.graph.node if node.op_type != "Constant"] == ["Relu", "Reshape"]


def test_weights_that_are_moved_stay_as_they_are() -> None:
    body = "turned = Transpose<perm = [1, 0]>(filters) y = MatMul(x, turned)"
    model = model_of(body, "n, 48", "n, 16", filters=values(16, 48))
    assert with_known_sizes(model, plain_form(model)) is model


def test_a_file_whose_constants_are_floats_stays_as_it_is() -> None:
    body = "sizes = Shape(x) y = Reshape(x, sizes)"
    for opset, same in ((8, True), (9, False)):
        model = model_of(body, "2, 48", "2, 48", opset)
        assert (with_known_sizes(model, plain_form(model)) is model) == same
