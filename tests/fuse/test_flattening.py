"""Which Reshape is taken for a Flatten: every one that ONNX Runtime gives [batch, rest] for, whatever the batch is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.normal_form import normal_forms

REST = (2, 3, 4)
FEATURES = 24


def model_of(
    nodes: list[onnx.NodeProto],
    tensors: dict[str, Any],
    batch: int | str | None = "n",
    other: int | str = "m",
    rest: tuple[int | str, ...] = REST,
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "reshape",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *rest]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [other, 5]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array, np.int64), name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def taken(model: onnx.ModelProto) -> bool:
    """Whether the normal form has a Flatten that gives ``y``."""
    (form,) = normal_forms(model)
    node = form.producer("y")
    return node is not None and node.is_op("Flatten") and not node.attributes


def flattens(model: onnx.ModelProto, batches: tuple[int, ...], *, or_refuses: bool = False) -> bool:
    """Whether ONNX Runtime gives [batch, rest] for each of these sizes of the batch (``or_refuses``: that it takes)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    declared = session.get_inputs()[1].shape[0]
    for n in batches:
        m = declared if isinstance(declared, int) else n if declared == "n" else n + 1
        feeds = {"x": np.arange(n * FEATURES, dtype=np.float32).reshape(n, *REST), "z": np.zeros((m, 5), np.float32)}
        try:
            (seen,) = session.run(None, feeds)
        except Exception:  # no such shape
            if or_refuses:
                continue
            return False
        if not np.array_equal(seen, feeds["x"].reshape(n, FEATURES)):
            return False
    return True


@dataclass(frozen=True)
class Computed:
    """How a target shape is computed: a batch from a Shape, and the rest."""

    source: str = "x"
    other: int | str = "m"
    start: int = 0
    pick: str = "gather"
    index: int = 0
    step: int = 1
    cast: bool = False
    rest: tuple[int, ...] = (-1,)
    swapped: bool = False

    def model(self) -> onnx.ModelProto:
        """The Reshape of x to that shape."""
        tensors: dict[str, Any] = {"rest": self.rest, "zero": [0]}
        nodes = [helper.make_node("Shape", [self.source], ["shape"], start=self.start)]
        if self.pick == "gather":
            tensors["index"] = self.index
            nodes.append(helper.make_node("Gather", ["shape", "index"], ["size"], axis=0))
            nodes.append(helper.make_node("Unsqueeze", ["size", "zero"], ["batch"]))
        elif self.pick == "gather_vector":
            tensors["index"] = [self.index]
            nodes.append(helper.make_node("Gather", ["shape", "index"], ["batch"], axis=0))
        else:
            end = self.index + self.step
            tensors |= {"start": [self.index], "end": [end if end >= 0 else -99], "step": [self.step]}
            steps = ["zero", "step"] if self.step != 1 else ["zero"]
            nodes.append(helper.make_node("Slice", ["shape", "start", "end", *steps], ["batch"]))
        parts = ["batch", "rest"]
        if self.cast:
            nodes.append(helper.make_node("Cast", ["batch"], ["small"], to=TensorProto.INT32))
            nodes.append(helper.make_node("Cast", ["small"], ["cast"], to=TensorProto.INT64))
            parts[0] = "cast"
        nodes.append(helper.make_node("Concat", parts[::-1] if self.swapped else parts, ["target"], axis=0))
        nodes.append(helper.make_node("Reshape", ["x", "target"], ["y"]))
        return model_of(nodes, tensors, other=self.other)


computed = st.builds(
    Computed,
    source=st.sampled_from(["x", "z"]),
    other=st.sampled_from(["n", "m", 2]),
    start=st.sampled_from([0, 0, 0, 1]),
    pick=st.sampled_from(["gather", "gather_vector", "slice"]),
    index=st.sampled_from([0, 0, 0, 1, -1]),
    step=st.sampled_from([1, 1, -1]),
    cast=st.booleans(),
    rest=st.sampled_from([(-1,), (FEATURES,), (12,), (6, 4)]),
    swapped=st.sampled_from([False, False, False, True]),
)


@settings(max_examples=150)
@given(computed)
def test_a_computed_target_is_taken_only_where_it_flattens(one: Computed) -> None:
    try:
        model = one.model()
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return  # sizes that contradict each other
    if taken(model):
        assert flattens(model, (1, 2, 3, 6), or_refuses=True)


@pytest.mark.parametrize(
    "one",
    [
        Computed(),
        Computed(pick="gather_vector"),
        Computed(pick="slice"),
        Computed(cast=True),
        Computed(source="z", other="n"),
        Computed(rest=(FEATURES,)),
        Computed(rest=(FEATURES,), pick="slice", step=-1),
    ],
)
def test_these_computed_targets_are_taken(one: Computed) -> None:
    assert flattens(one.model(), (1, 2, 3))
    assert taken(one.model())


@pytest.mark.parametrize(
    "one",
    [
        Computed(source="z"),
        Computed(source="z", other=2),
        Computed(start=1),
        Computed(index=1),
        Computed(index=-1, pick="slice"),
        Computed(swapped=True),
        Computed(rest=(6, 4)),
        Computed(rest=(12,)),
    ],
)
def test_these_computed_targets_are_left(one: Computed) -> None:
    assert not taken(one.model())


@pytest.mark.parametrize("batch", ["n", 1, 3])
@pytest.mark.parametrize("allowzero", [0, 1])
@pytest.mark.parametrize("first", [-1, 0, 1, 3, 6])
@pytest.mark.parametrize("second", [-1, FEATURES, 12, 72])
def test_a_constant_target_is_taken_exactly_where_it_flattens(
    batch: int | str, allowzero: int, first: int, second: int
) -> None:
    if (first, second) == (-1, -1) or (allowzero and 0 in (first, second) and -1 in (first, second)):
        return  # which ONNX does not have
    node = helper.make_node("Reshape", ["x", "target"], ["y"], allowzero=allowzero)
    model = model_of([node], {"target": [first, second]}, batch)
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return
    assert taken(model) == flattens(model, (batch,) if isinstance(batch, int) else (1, 2, 3, 6))


def test_a_target_of_another_rank_is_left() -> None:
    for target in ([-1], [0, 6, 4], [0, -1, 1]):
        assert not taken(model_of([helper.make_node("Reshape", ["x", "target"], ["y"])], {"target": target}))


def test_sizes_that_are_not_known() -> None:
    """[0, -1] flattens whatever the sizes are; a number of features means nothing where they are not known."""
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    assert taken(model_of([node], {"target": [0, -1]}, rest=("c", "h", "w")))
    assert not taken(model_of([node], {"target": [-1, FEATURES]}, rest=("c", "h", "w")))


@pytest.mark.parametrize(("axis", "flat"), [(1, True), (-3, True), (0, False), (2, False), (-1, False), (3, False)])
def test_flatten_at_any_axis(axis: int, flat: bool) -> None:
    model = model_of([helper.make_node("Flatten", ["x"], ["y"], axis=axis)], {})
    assert taken(model) is flat
    assert flattens(model, (1, 2, 3)) is flat


def viewed(*nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """x.view([batch, rest]), with a ``batch`` that the nodes compute from the ``shape`` of x."""
    return [
        helper.make_node("Shape", ["x"], ["shape"]),
        *nodes,
        helper.make_node("Concat", ["batch", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]


@pytest.mark.parametrize(("start", "flat"), [(0, True), (1, False)])
def test_a_slice_of_an_old_opset_has_its_start_as_an_attribute(start: int, flat: bool) -> None:
    node = helper.make_node("Slice", ["shape"], ["batch"], axes=[0], starts=[start], ends=[start + 1])
    model = model_of(viewed(node), {"rest": [-1]}, opset=9)
    assert taken(model) == flat
    assert flattens(model, (1, 3)) == flat


def test_a_batch_that_has_no_name_is_still_the_batch_of_the_same_value() -> None:
    node = helper.make_node("Gather", ["shape", "zero"], ["batch"])
    model = model_of(viewed(node), {"rest": [-1], "zero": [0]}, batch=None)
    assert taken(model)
    assert flattens(model, (1, 3))


def test_a_size_whose_index_is_computed_may_be_any() -> None:
    nodes = viewed(
        helper.make_node("Shape", ["z"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["five"]),
        helper.make_node("Sub", ["five", "four"], ["index"]),
        helper.make_node("Gather", ["shape", "index"], ["batch"]),
    )
    model = model_of(nodes, {"rest": [-1], "one": [1], "four": [4]})
    assert not taken(model)
    assert not flattens(model, (1, 3))


@pytest.mark.parametrize("form", ["value", "value_ints", "value_int"])
def test_a_target_may_be_constant_nodes_of_any_form(form: str) -> None:
    if form == "value_int":
        nodes = [helper.make_node("Constant", [], ["first"], value_int=0)]
        nodes.append(helper.make_node("Unsqueeze", ["first", "axis"], ["batch"]))
    else:
        value = {"value": numpy_helper.from_array(np.array([0])), "value_ints": [0]}[form]
        nodes = [helper.make_node("Constant", [], ["batch"], **{form: value})]
    nodes.append(helper.make_node("Concat", ["batch", "rest"], ["target"], axis=0))
    nodes.append(helper.make_node("Reshape", ["x", "target"], ["y"]))
    model = model_of(nodes, {"rest": [FEATURES], "axis": [0]})
    assert flattens(model, (1, 3))
    assert taken(model)
