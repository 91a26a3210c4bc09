"""Shapes of models with open axes: further than ONNX's inference, and never other than what is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from lenet_trt.onnx_model.inferred import inferred
from lenet_trt.onnx_model.open_sizes import Element, Elements, Size, computed
from lenet_trt.onnx_model.shapes import known

# Attention and what stands around it, as the TorchScript exporter writes it for an open batch.
SPLIT_HEADS = """
  shape = Shape(x) batch = Gather(shape, zero) one_batch = Unsqueeze(batch, axis)
  target = Concat<axis = 0>(one_batch, minus, heads, width) parts = Reshape(x, target)
  y = Transpose<perm = [0, 2, 1, 3]>(parts)
"""
HALVES = """
  shape = Shape(x) rows = Gather(shape, two) more = Add(rows, one) half = Div(more, two)
  begin = Unsqueeze(zero, axis) end = Unsqueeze(half, axis) at = Unsqueeze(two, axis) y = Slice(x, begin, end, at)
"""
REPEATED = """
  shape = Shape(x) batch = Gather(shape, zero) one_batch = Unsqueeze(batch, axis)
  target = Concat<axis = 0>(one_batch, minus, minus) rank = Shape(target)
  ones = ConstantOfShape<value = int64[1] {1}>(rank)
  minus_one = Unsqueeze(negative, axis) all_minus = Mul(ones, minus_one) given = Equal(target, all_minus)
  sizes = Where(given, ones, target) y = Expand(token, sizes)
"""
GROUPS = """
  shape = Shape(x) batch = Gather(shape, zero) windows = Mul(batch, two) one_size = Unsqueeze(windows, axis)
  target = Concat<axis = 0>(one_size, minus, width) parts = Reshape(x, target)
  again = Shape(parts) count = Gather(again, zero) images = Div(count, two) one_image = Unsqueeze(images, axis)
  back = Concat<axis = 0>(one_image, width, minus) y = Reshape(parts, back)
"""
# How torch indexes the texts of a batch.
INDEXES = """
  shape = Shape(x) batch = Gather(shape, zero) texts = Range(zero, batch, one) y = Unsqueeze(texts, axis)
"""
CONSTANTS = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "negative": np.array(-1),
    "axis": np.array([0]),
    "minus": np.array([-1]),
    "heads": np.array([4]),
    "width": np.array([6]),
}


def model_of(body: str) -> onnx.ModelProto:
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> network (float[n, 10, 24] x) => (float[a, b, c, d] y) {{ {body} }}'
    )
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    tensors = {**CONSTANTS, "token": np.zeros((1, 3, 5), np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tensors.items())
    return model


def shape_of(model: onnx.ModelProto, name: str = "y") -> list[Any] | None:
    for value in (*model.graph.value_info, *model.graph.output):
        if value.name == name and value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]
    return None


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (SPLIT_HEADS, ["n", 4, 10, 6]),
        (HALVES, ["n", 10, 12]),
        (REPEATED, ["n", 3, 5]),
        (GROUPS, ["n", 6, 40]),
        (INDEXES, [1, "n"]),
    ],
)
def test_computed_shapes_of_an_open_batch_are_known(body: str, wanted: list[Any]) -> None:
    model = model_of(body)
    assert shape_of(inferred(model)) == wanted
    for batch in (1, 3):
        (y,) = ReferenceEvaluator(model).run(None, {"x": np.zeros((batch, 10, 24), np.float32)})
        assert [size if size != "n" else batch for size in wanted] == list(y.shape)


def test_a_size_that_cannot_be_known_stays_open() -> None:
    model = model_of("y = Reshape(x, like)")
    model.graph.input.append(helper.make_tensor_value_info("like", onnx.TensorProto.INT64, [3]))
    assert shape_of(inferred(model)) is None or not any(
        isinstance(size, int) for size in shape_of(inferred(model)) or []
    )


@pytest.mark.parametrize("bounds", ["one, batch, one", "zero, batch, two", "batch, zero, negative", "zero, less, one"])
def test_a_count_that_is_no_size_is_not_known(bounds: str) -> None:
    text = f"shape = Shape(x) batch = Gather(shape, zero) less = Mul(batch, negative) y = Range({bounds})"
    (size,) = shape_of(inferred(model_of(text))) or [None]
    assert size is None or "n" not in str(size).replace("unk", "")


OPERATORS = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Equal",
    "Concat",
    "Gather",
    "Slice",
    "Where",
    "Identity",
    "ReduceProd",
    "Reshape",
]
STEPS = st.lists(st.tuples(st.sampled_from(OPERATORS), *[st.integers(0, 9)] * 3), min_size=1, max_size=10)
BATCHES = (1, 2, 6)


def value(element: Element, batch: int) -> int | bool | None:
    if not isinstance(element, Size):
        return element
    return int(element.factor * batch ** len(element.names))


@pytest.mark.filterwarnings("ignore:divide by zero")
@settings(max_examples=200)
@given(STEPS)
def test_what_is_known_of_a_computed_shape_is_what_is_computed(steps: list[tuple[str, int, int, int]]) -> None:
    """Random arithmetic with the shape [n, 4, 6], for several n."""
    held: dict[str, Elements] = {"shape": [Size(1, ("n",)), Size(4), Size(6)], "i": [Size(0)], "j": [Size(-1)]}
    seen = {name: [np.array([value(e, n) for e in elements]) for n in BATCHES] for name, elements in held.items()}
    for number, (op, *chosen) in enumerate(steps):
        names = [name for name in seen if seen[name][0].dtype != bool]
        arguments = [names[each % len(names)] for each in chosen]
        flags = [name for name in seen if seen[name][0].dtype == bool]
        if op == "Where":
            arguments[0] = flags[chosen[0] % len(flags)] if flags else ""
        count = {"Where": 3, "Slice": 3, "Identity": 1, "ReduceProd": 1}.get(op, 2)
        node = helper.make_node(op, arguments[:count], [f"v{number}"], **({"axis": 0} if op == "Concat" else {}))
        try:
            results = [
                np.asarray(ReferenceEvaluator(node).run(None, {name: seen[name][i] for name in node.input})[0])
                for i in range(len(BATCHES))
            ]
        except (RuntimeError, ValueError, IndexError, TypeError, KeyError, ZeroDivisionError):
            continue  # no program that a network can have: lengths or indexes that do not fit
        if len({(each.shape, each.dtype) for each in results}) > 1 or results[0].ndim != 1 or results[0].size > 64:
            continue
        elements = computed(node, held, lambda name: None)
        seen[f"v{number}"] = results
        if elements is None:
            continue
        held[f"v{number}"] = elements
        for n, result in zip(BATCHES, results, strict=True):
            for element, wanted in zip(elements, result.tolist(), strict=True):
                assert element is None or value(element, n) == wanted, (node, held)


def test_many_computed_shapes_in_a_row_are_all_known() -> None:
    """LeViT flattens and restores its tokens around each batch norm, in old opsets by a shape that it computes."""
    layers = [
        f"flat{i} = Flatten<axis = 2>(x{i}) shape{i} = Shape(x{i}) x{i + 1} = Reshape(flat{i}, shape{i})"
        for i in range(40)
    ]
    text = f"""<ir_version: 8, opset_import: ["" : 13]> network (float[n, 10, 24] x0) => (float[a, b, c] y)
      {{ {" ".join(layers)} y = Relu(x40) }}"""
    assert known(parser.parse_model(text), {"n": 2}).tensors["y"].shape == (2, 10, 24)


def test_a_size_that_its_type_cannot_hold_is_not_known() -> None:
    """It is another number when the model runs."""
    text = """<ir_version: 8, opset_import: ["" : 17]> network (float[2, 4294967296] x) => (int32[2] y) {
      shape = Shape(x) narrow = Cast<to = 6>(shape) y = Mul(narrow, narrow)
    }"""
    assert shape_of(inferred(parser.parse_model(text))) == [2]
